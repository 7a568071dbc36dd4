"""The operator sets exactly the variables of the contract, in the container that trains only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core.environment import is_reserved
from tftraining_operator.core.podtemplate import pod_spec

from tests.unit.builders import IMAGE, JobBuilder, a_job

VARIABLES = json.loads((Path(__file__).parent / "environment.json").read_text())["variables"]
DIRECTORY = "TFTRAINING_CHECKPOINT_DIR"
CLAIM = {"persistentVolumeClaim": {"claimName": "mnist"}}


def variables(job: JobBuilder, role: Role, attempt: int = 0) -> dict[str, str]:
    containers = pod_spec(job.build(), role, 0, attempt, IMAGE)["containers"]
    (env,) = [c["env"] for c in containers if c["name"] == keys.CONTAINER]
    found = {variable["name"]: variable["value"] for variable in env}
    assert len(found) == len(env), "each is set once"
    return found


@pytest.mark.parametrize("role", Role)
def test_each_role_gets_exactly_its_variables(role: Role) -> None:
    found = variables(a_job().with_workers(3).with_evaluator(), role, attempt=2)
    always = {v["name"] for v in VARIABLES if role.value in v["roles"] and "when" not in v}
    assert set(found) == always
    fixed = {v["name"]: v["value"] for v in VARIABLES if "value" in v and v["name"] in found}
    assert fixed.items() <= found.items()


def test_the_variables_say_what_the_contract_says_they_mean() -> None:
    job = a_job().named("mnist", uid="uid-7").with_workers(3).with_spec(checkpoint=CLAIM)
    found = variables(job, Role.CHIEF, attempt=2)
    assert found["TFTRAINING_JOB"] == "mnist"
    assert found["TFTRAINING_JOB_UID"] == "uid-7"
    assert found["TFTRAINING_STRATEGY"] == "ParameterServer"
    assert found["TFTRAINING_ATTEMPT"] == "2"
    assert found["TFTRAINING_WORKERS"] == "3"
    assert found[DIRECTORY] == "/checkpoints"


@pytest.mark.parametrize(
    ("job", "role", "directory"),
    [
        pytest.param(a_job(), Role.CHIEF, None, id="a job without checkpoints has no directory"),
        pytest.param(
            a_job().with_spec(checkpoint={"uri": "gs://bucket/mnist"}),
            Role.CHIEF,
            "gs://bucket/mnist",
            id="object storage by its URI",
        ),
        pytest.param(
            a_job().with_spec(checkpoint=CLAIM | {"path": "/ckpt"}),
            Role.CHIEF,
            "/ckpt",
            id="a volume by its path",
        ),
        pytest.param(
            a_job().mirrored(workers=1).with_spec(checkpoint=CLAIM),
            Role.WORKER,
            "/checkpoints",
            id="a mirrored worker writes its own backup",
        ),
        pytest.param(
            a_job().with_spec(checkpoint=CLAIM), Role.WORKER, None, id="another worker does not"
        ),
    ],
)
def test_the_checkpoint_directory(job: JobBuilder, role: Role, directory: str | None) -> None:
    assert variables(job, role).get(DIRECTORY) == directory


def test_an_earlier_training_to_start_from_is_told_to_those_who_restore_it() -> None:
    job = a_job().with_evaluator().with_spec(checkpoint=CLAIM | {"resumeFrom": "/checkpoints/old"})
    told = {role: variables(job, role).get("TFTRAINING_RESUME_FROM") for role in Role}
    assert told == {**dict.fromkeys(Role), Role.CHIEF: "/checkpoints/old"}
    mirrored = (
        a_job()
        .mirrored(workers=1)
        .with_spec(checkpoint={"uri": "gs://bucket/new", "resumeFrom": "gs://bucket/old"})
    )
    assert variables(mirrored, Role.WORKER)["TFTRAINING_RESUME_FROM"] == "gs://bucket/old"


def test_every_variable_is_ours_alone() -> None:
    assert [v["name"] for v in VARIABLES if not is_reserved(v["name"])] == []
    assert not is_reserved("TF_CPP_MIN_LOG_LEVEL")


def test_the_progress_port_is_a_named_port() -> None:
    spec = pod_spec(a_job().build(), Role.CHIEF, 0, 0, IMAGE)
    (port,) = [v["value"] for v in VARIABLES if v["name"] == "TFTRAINING_PROGRESS_PORT"]
    assert {"name": "progress", "containerPort": int(port), "protocol": "TCP"} in spec[
        "containers"
    ][0]["ports"]
