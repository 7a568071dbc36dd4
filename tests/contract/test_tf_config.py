"""The operator renders every TF_CONFIG of the contract, for every pod, and for no other."""

from __future__ import annotations

import json
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.environment import environment
from tftraining_operator.core.observed import slots
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.tfconfig import LIMIT, TfConfigTooLargeError

from tests.unit.builders import IMAGE, a_job

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
    return job.with_status(
        excluded_workers=given.get("excluded", []), cluster_workers=given.get("cluster_workers")
    ).build()


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


def a_large_job(strategy: str, workers: int, *, name: str = "m" * 40) -> Job:
    ps = 1 if strategy == "ParameterServer" else 0
    given = {"job": name, "namespace": "n" * 60, "strategy": strategy, "worker": workers, "ps": ps}
    return job_of(given | {"evaluator": 1})


def bytes_of(job: Job, role: Role, index: int = 0) -> int:
    """What Linux counts: NAME=value and the byte that ends it."""
    return len(f"TF_CONFIG={environment(job, role, index, 0)['TF_CONFIG']}") + 1


def largest_job(strategy: str) -> int:
    """Return the most workers of a large job whose chief can be started."""

    def is_refused(workers: int) -> bool:
        try:
            environment(a_large_job(strategy, workers), Role.CHIEF, 0, 0)
        except TfConfigTooLargeError:
            return True
        return False

    return bisect_left(range(1, 1001), x=True, key=is_refused)


@pytest.mark.parametrize("strategy", ["ParameterServer", "MultiWorkerMirrored"])
def test_the_largest_job_that_is_accepted_is_just_within_the_limit(strategy: str) -> None:
    workers = largest_job(strategy)
    job = a_large_job(strategy, workers)
    an_address = bytes_of(job, Role.CHIEF) // workers
    for role, index in ((Role.CHIEF, 0), (Role.WORKER, workers - 1)):
        assert LIMIT - 2 * an_address < bytes_of(job, role, index) <= LIMIT


def test_a_server_of_too_large_a_cluster_gets_only_itself() -> None:
    job = a_large_job("ParameterServer", 1000)
    config = json.loads(environment(job, Role.WORKER, 7, 0)["TF_CONFIG"])
    own = f"{job.name}-worker-7.{job.name}.{job.namespace}.svc:2222"
    assert config == {
        "cluster": {"worker": {"7": own}},
        "task": {"type": "worker", "index": 7},
    }
    assert bytes_of(job, Role.EVALUATOR) < 1000


@pytest.mark.parametrize("strategy", ["ParameterServer", "MultiWorkerMirrored"])
def test_a_job_whose_cluster_no_variable_can_hold_is_refused_with_the_limit(strategy: str) -> None:
    job = a_large_job(strategy, 1000)
    with pytest.raises(InvalidTemplateError) as refused:
        desired.samples(job, IMAGE)
    for part in ("TF_CONFIG", "131,072", "fewer workers than 1,000", "job's name"):
        assert part in str(refused.value)


def test_a_thousand_workers_with_short_names_are_accepted() -> None:
    job = a_large_job("MultiWorkerMirrored", 1000, name="m")
    assert bytes_of(job, Role.WORKER, 999) < LIMIT


def test_a_server_finds_itself_at_its_index_whichever_worker_is_excluded() -> None:
    given = {"job": "gap", "namespace": "default", "strategy": "ParameterServer"}
    given |= {"worker": 3, "ps": 1, "evaluator": 0}
    whole, gap = (job_of(given | {"excluded": excluded}) for excluded in ([], [0]))
    for role, index, name in slots(gap):
        if role is Role.CHIEF:
            continue
        text = environment(gap, role, index, 0)["TF_CONFIG"]
        assert text == environment(whole, role, index, 0)["TF_CONFIG"]
        assert json.loads(text)["cluster"][role.value][index].startswith(f"{name}.")


@pytest.mark.parametrize("strategy", ["ParameterServer", "MultiWorkerMirrored"])
def test_a_worker_that_is_to_join_finds_itself_while_the_chiefs_cluster_is_as_before(
    strategy: str,
) -> None:
    ps = 1 if strategy == "ParameterServer" else 0
    given = {"job": "grows", "namespace": "default", "strategy": strategy, "worker": 3, "ps": ps}
    job = job_of(given | {"evaluator": 0, "cluster_workers": 2})
    sizes = {
        name: len(json.loads(environment(job, role, index, 0)["TF_CONFIG"])["cluster"]["worker"])
        for role, index, name in slots(job)
    }
    assert (sizes["grows-chief-0"], sizes["grows-worker-2"]) == (2, 3)
    if strategy == "MultiWorkerMirrored":
        said = environment(job, Role.WORKER, 2, 0)["TFTRAINING_CLUSTER_WORKERS"]
        assert said == "3"
