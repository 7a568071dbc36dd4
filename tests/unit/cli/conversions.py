"""TFJobs for tests of the converter, and what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from tftraining import manifest
from tftraining.cli.convert import directions, documents
from tftraining_operator.api.keys import Role
from tftraining_operator.core import podtemplate
from tftraining_operator.core.observed import slots

if TYPE_CHECKING:
    from tftraining.cli.convert.findings import Conversion, Level

Raw = dict[str, Any]

FILES = Path(__file__).parent / "tfjobs"


def a_replica(count: int = 1, policy: str | None = None, **spec: Any) -> Raw:
    container = {"name": "tensorflow", "image": "example.com/train:1"}
    replica: Raw = {"replicas": count, "template": {"spec": {"containers": [container], **spec}}}
    return replica | ({"restartPolicy": policy} if policy else {})


def mounting(path: str, **fields: Any) -> Raw:
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
    replica = a_replica(volumes=[volume])
    mount = {"name": "models", "mountPath": path, **fields}
    replica["template"]["spec"]["containers"][0]["volumeMounts"] = [mount]
    return replica


def a_tfjob(run_policy: Raw | None = None, /, **replicas: Raw) -> Raw:
    spec: Raw = {"tfReplicaSpecs": replicas}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist"},
        "spec": spec | ({"runPolicy": run_policy} if run_policy else {}),
    }


def told(conversion: Conversion, level: Level) -> dict[str, str]:
    return {each.path: each.text for each in conversion.findings if each.level is level}


def spec_of(conversion: Conversion) -> Raw:
    """The converted spec, after the whole job has passed what the API server asks for."""
    assert conversion.job is not None, conversion.findings
    job = manifest.parse(yaml.safe_dump(plain(conversion.job)), "x", uid="uid").job
    for role, index, _ in slots(job):
        podtemplate.pod_spec(job, role, index, 0, "example.com/trainer:1")
    spec: Raw = plain(conversion.job)["spec"]
    return spec


def plain(given: Any) -> Any:
    if isinstance(given, dict):
        return {str(key): plain(value) for key, value in given.items()}
    if isinstance(given, list):
        return [plain(item) for item in given]
    return str(given) if isinstance(given, str) else given


def roles(spec: Raw) -> dict[str, int]:
    wanted = {role.value: spec.get(role.value) for role in Role}
    return {role: given.get("replicas", 1) for role, given in wanted.items() if given is not None}


def convert_text(text: str) -> documents.Converted:
    """TFJobs of a file, converted."""
    return documents.convert_text(text, "x", directions.to_tftrainingjobs())
