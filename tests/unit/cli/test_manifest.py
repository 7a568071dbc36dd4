"""What a file may contain, and the error messages for one that is wrong."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tftraining import manifest
from tftraining.errors import ExitCode, InputError
from tftraining_operator.api import rules
from tftraining_operator.core.job import parse_job

from tests.conftest import ROOT
from tests.unit.builders import NOW, a_job
from tests.unit.cli.plans import a_file

if TYPE_CHECKING:
    from pathlib import Path

JOB = a_file(a_job())
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "code"},
    "data": {"task.py": "import os\n"},
    "binaryData": {"seed": "AQI="},
}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys"},
    "data": {"token": "aGk="},
    "stringData": {"user": "me"},
}


def test_a_job_gets_a_uid_and_the_default_namespace() -> None:
    job = manifest.parse(JOB, "job.yaml", uid="local-1").job
    assert (job.name, job.namespace, job.uid) == ("mnist", "default", "local-1")


def test_the_stored_job_has_the_defaults_of_the_api_server_and_parses_to_the_same() -> None:
    container = {"name": "tensorflow", "command": ["run"], "resources": {"limits": {"cpu": 2}}}
    job = a_job().with_role("chief", template={"spec": {"containers": [container]}})
    job.with_evaluator().with_policy(backoffLimit=1)
    found = manifest.parse(a_file(job), "job.yaml", uid="local-1")
    assert parse_job(found.stored, NOW) == found.job
    assert found.stored["spec"]["runPolicy"] == job.raw["spec"]["runPolicy"] | {
        "suspend": False,
        "startupDeadlineSeconds": 600,
        "evaluatorGraceSeconds": 120,
        "cleanPodPolicy": "Running",
        "managedBy": "tftraining.dev/operator",
    }
    assert found.stored["spec"]["chief"]["template"] == {"spec": {"containers": [container]}}


def test_config_maps_and_secrets_of_the_file_are_decoded() -> None:
    found = manifest.parse(a_file(a_job(), CONFIG_MAP, SECRET), "job.yaml", uid="")
    assert found.config_maps == {"code": {"task.py": b"import os\n", "seed": b"\x01\x02"}}
    assert found.secrets == {"keys": {"token": b"hi", "user": b"me"}}


def test_a_date_stays_text_as_in_json() -> None:
    text = JOB.replace("--task=mnist", "2026-01-02")
    args = manifest.parse(text, "job.yaml", uid="").job.spec.template
    assert args is not None
    assert args.as_dict()["spec"]["containers"][0]["args"] == ["2026-01-02"]


@pytest.mark.parametrize(
    ("text", "value"), [("0o644", 420), ("y", True), ("1:30", "1:30"), ("1e3", 1000), ("=", "=")]
)
def test_a_file_has_the_values_that_kubectl_would_send(text: str, value: object) -> None:
    assert list(manifest.documents(f"{{x: {text}}}", "x")) == [{"x": value}]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"args": ["--epochs", 5]}, 'args[1]: must be a string: write "5" in quotes'),
        ({"command": ["run", True]}, 'command[1]: must be a string: write "true" in quotes'),
        (
            {"env": [{"name": "A", "value": "x"}, {"name": "RATE", "value": 1e-3}]},
            'env[1].value: must be a string: write "0.001" in quotes',
        ),
    ],
)
def test_what_lacks_its_quotes_is_told_before_a_pod_is_refused_for_it(
    fields: dict[str, Any], told: str
) -> None:
    shared, own = a_job().with_container(**fields), a_job()
    (container,) = shared.raw["spec"]["template"]["spec"]["containers"]
    pod = {"containers": [{"name": "tensorflow"}], "initContainers": [container]}
    own.with_role("worker", template={"spec": pod})
    for job, path in (
        (shared, "spec.template.spec.containers[0]"),
        (own, "spec.worker.template.spec.initContainers[0]"),
    ):
        with pytest.raises(InputError) as refused:
            manifest.parse(a_file(job), "x", uid="")
        assert str(refused.value) == f"x: {path}.{told}"


def test_the_items_of_a_list_count_as_documents() -> None:
    listed = "kind: List\nitems:\n- " + JOB.replace("\n", "\n  ")
    assert manifest.parse(listed, "job.yaml", uid="").job.name == "mnist"


def test_json_is_read_as_json() -> None:
    """YAML's parser takes no tabs, and two halves of a character for two."""
    job = a_job().raw
    job["metadata"]["annotations"] = {"mood": "\N{GRINNING FACE}"}
    (found,) = manifest.documents(json.dumps(job, indent="\t"), "job.json")
    assert found == job


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(JOB))
    assert manifest.read("-") == JOB


def test_a_byte_order_mark_is_no_part_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As editors and shells on Windows write it; with it, JSON would not be taken for JSON."""
    text = json.dumps(a_job().raw)
    file = tmp_path / "job.json"
    file.write_text(text, encoding="utf-8-sig")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\N{ZERO WIDTH NO-BREAK SPACE}{text}"))
    assert manifest.read(str(file)) == manifest.read("-") == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "job.yaml:1: invalid YAML", id="invalid YAML, with its line"),
        pytest.param("- a", "job.yaml: each document must be an object", id="a list"),
        *(
            pytest.param(
                f"{JOB}---\nkind: List\nitems: {items}\n",
                "job.yaml: items of a List must be a list of objects",
                id=f"a List of {items}",
            )
            for items in ("5", "[a]")
        ),
        pytest.param(
            f"{JOB}---\nkind: ConfigMap\nmetadata: {{name: code}}\ndata: text\n",
            "job.yaml: ConfigMap code: data must be an object",
            id="data that is text",
        ),
        pytest.param("", "job.yaml: contains no TFTrainingJob (found: nothing)", id="nothing"),
        pytest.param(
            "kind: ConfigMap\n", "contains no TFTrainingJob (found: ConfigMap)", id="another kind"
        ),
        pytest.param(
            "apiVersion: kubeflow.org/v1\nkind: TFJob\n",
            "contains no TFTrainingJob (found: TFJob); tftj convert job.yaml makes one of a TFJob",
            id="a TFJob",
        ),
        pytest.param(
            '{"cells": []}', "contains no TFTrainingJob (found: an object without kind)", id="none"
        ),
        pytest.param(
            f"{JOB}---\n{JOB}",
            "contains 2 jobs (mnist, mnist); keep only one of them",
            id="two jobs",
        ),
        pytest.param(
            JOB.replace("v1alpha1", "v1"),
            "apiVersion: must be tftraining.dev/v1alpha1, not tftraining.dev/v1",
            id="another version",
        ),
        pytest.param(
            JOB.replace("name: mnist", "generateName: mnist-"),
            "metadata.name: is required",
            id="no name",
        ),
        pytest.param(
            JOB.replace("replicas: 1", "replicas: two"),
            'spec.ps.replicas: must be an integer, not "two"',
            id="a value of another type",
        ),
        pytest.param(
            JOB.replace("replicas: 1", "replica: 1"),
            "spec.worker.replica: unknown field; did you mean replicas?",
            id="an unknown field",
        ),
        pytest.param(
            f"{JOB}worker: {{}}\n",
            "worker: unknown field; does it belong in spec?",
            id="a field beside spec",
        ),
    ],
)
def test_an_error_names_file_and_field(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        manifest.parse(text, "job.yaml", uid="")
    assert message in str(refused.value)
    assert refused.value.code is ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"ps": {"replicas": 0}}, id="no ps"),
        pytest.param({"chief": {"replicas": 2}}, id="two chiefs"),
        pytest.param({"evaluator": {}, "checkpoint": None}, id="an evaluator without checkpoints"),
    ],
)
def test_a_broken_rule_has_the_message_of_the_crd(spec: dict[str, Any]) -> None:
    job = a_job().with_spec(**spec)
    with pytest.raises(InputError) as refused:
        manifest.parse(a_file(job), "job.yaml", uid="")
    (line,) = str(refused.value).splitlines()
    assert line.partition(": ")[2] in {f"{rule.field}: {rule.message}" for rule in rules.RULES}


def test_all_errors_are_reported_at_once() -> None:
    job = a_job().with_spec(ps={"replicas": 0}, chief={"replicas": 2})
    with pytest.raises(InputError) as refused:
        manifest.parse(a_file(job), "job.yaml", uid="")
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        pytest.param(
            "data", {"token": "?"}, "Secret keys: data.token must be base64", id="no base64"
        ),
        pytest.param(
            "stringData",
            {"user": 1},
            "stringData.user must be a string",
            id="a number in place of text",
        ),
    ],
)
def test_a_secret_that_cannot_be_decoded_is_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        manifest.parse(a_file(a_job(), SECRET | {field: value}), "job.yaml", uid="")


@pytest.mark.parametrize("key", ["../x", "a/b", "..", "..x", ".", "a b", ""])
@pytest.mark.parametrize(
    ("document", "field"),
    [
        pytest.param(CONFIG_MAP, "data", id="ConfigMap"),
        pytest.param(CONFIG_MAP, "binaryData", id="ConfigMap, base64"),
        pytest.param(SECRET, "stringData", id="Secret"),
    ],
)
def test_a_key_that_is_no_name_of_a_file_is_refused(
    document: dict[str, Any], field: str, key: str
) -> None:
    with pytest.raises(InputError, match=rf"{field}: rename the key '{re.escape(key)}': "):
        manifest.parse(a_file(a_job(), document | {field: {key: "aGk="}}), "job.yaml", uid="")


def test_a_key_that_is_a_number_is_text() -> None:
    found = manifest.parse(
        a_file(a_job(), {**CONFIG_MAP, "data": {1: "one"}, "binaryData": {}}), "job.yaml", uid=""
    )
    assert found.config_maps == {"code": {"1": b"one"}}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*absent\.yaml: No such file"):
        manifest.read(str(tmp_path / "absent.yaml"))


@pytest.mark.parametrize("source", ["job.yaml", "-"])
def test_files_and_what_is_printed_of_them_are_utf_8_in_every_locale(
    tmp_path: Path, source: str
) -> None:
    """As for kubectl; a Python of another encoding would send other text, or refuse the file."""
    given = yaml.safe_dump(
        a_job().with_container(args=["caf\xe9"]).raw, allow_unicode=True
    ).encode()
    (tmp_path / "job.yaml").write_bytes(given)
    done = subprocess.run(
        [sys.executable, "-m", "tftraining.cli", "submit", "--dry-run", source],
        env={
            "PYTHONPATH": str(ROOT / "operator"),
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
        },
        cwd=tmp_path,
        input=given,
        capture_output=True,
        check=False,
    )
    assert "- caf\xe9" in done.stdout.decode(), done.stderr.decode()
