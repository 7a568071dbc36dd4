"""The operator renders every TF_CONFIG of the contract, for every pod, and for no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.environment import environment
from tftraining_operator.core.observed import slots

from tests.unit.builders import a_job

if TYPE_CHECKING:
    from tftraining_operator.core.job import Job

CASES = sorted((Path(__file__).parent / "tf_config").glob("*.json"))


def job_of(given: dict[str, Any]) -> Job:
    job = a_job().named(given["job"], namespace=given["namespace"])
    job.with_spec(strategy=given["strategy"])
    for role in ("worker", "ps"):
        job.raw["spec"].pop(role)
        if given[role]:
            job.with_role(role, replicas=given[role])
    if given["evaluator"]:
        job.with_evaluator()
    return job.with_status(excluded_workers=given.get("excluded", [])).build()


def test_there_are_cases() -> None:
    assert len(CASES) >= 5


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_pod_gets_the_tf_config_of_the_contract(path: Path) -> None:
    case = json.loads(path.read_text())
    job = job_of(case["given"])
    rendered = {
        name: environment(job, role, index, 0)["TF_CONFIG"] for role, index, name in slots(job)
    }
    # As text: the order of roles is a part of the contract.
    assert rendered == {
        name: json.dumps(config, separators=(",", ":")) for name, config in case["pods"].items()
    }


def test_the_order_of_addresses_is_the_order_of_indexes() -> None:
    case = {"job": "many", "namespace": "default", "strategy": "ParameterServer"}
    job = job_of(case | {"worker": 12, "ps": 1, "evaluator": 0})
    config = json.loads(environment(job, Role.CHIEF, 0, 0)["TF_CONFIG"])
    found = [address.split(".")[0] for address in config["cluster"]["worker"]]
    assert found == [f"many-worker-{index}" for index in range(12)]
