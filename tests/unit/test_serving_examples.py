"""The manifests that serve a model fit the job whose model they serve."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPORTER = Path(__file__).parents[2] / "trainer_image/tftrainer/saving/export.py"


def documents(path: str) -> dict[str, dict[str, Any]]:
    found = yaml.safe_load_all((EXAMPLES / path).read_text())
    return {document["kind"]: document for document in found}


@pytest.fixture(scope="module")
def claim() -> str:
    """The volume that the job writes to, which is all its own."""
    job = documents("mnist.yaml")["TFTrainingJob"]
    name: str = job["spec"]["checkpoint"]["persistentVolumeClaim"]["claimName"]
    return name


@pytest.fixture(scope="module")
def folder() -> str:
    """Where the trainer exports to, below the checkpoint directory."""
    found = re.search(r'^FOLDER = "(\w+)"$', EXPORTER.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_kserve_reads_the_versions_from_the_volume_of_the_job(claim: str, folder: str) -> None:
    service = documents("serving/kserve.yaml")["InferenceService"]
    assert service["apiVersion"] == "serving.kserve.io/v1beta1"
    model = service["spec"]["predictor"]["model"]
    assert model["modelFormat"] == {"name": "tensorflow"}
    assert model["storageUri"] == f"pvc://{claim}/{folder}"


def test_tensorflow_serving_reads_them_too(claim: str, folder: str) -> None:
    found = documents("serving/tensorflow-serving.yaml")
    template = found["Deployment"]["spec"]["template"]
    (volume,) = template["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
    (container,) = template["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert f"--model_base_path={mount['mountPath']}/{folder}" in container["args"]
    assert found["Service"]["spec"]["selector"] == template["metadata"]["labels"]
