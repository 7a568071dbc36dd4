"""What goes when a job has ended."""

from __future__ import annotations

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.policies import cleanup

from tests.unit.builders import a_job, a_pod, seen


@pytest.mark.parametrize(
    ("policy", "cleaned", "released"),
    [
        pytest.param("Running", {"mnist-worker-0"}, {"mnist-worker-0"}, id="Running"),
        pytest.param(
            "All",
            {"mnist-worker-0", "mnist-ps-0", "mnist-chief-0"},
            {"mnist-worker-0"},
            id="All",
        ),
        pytest.param("None", set(), set(), id="None"),
    ],
)
def test_clean_pod_policy(policy: str, cleaned: set[str], released: set[str]) -> None:
    job = a_job().with_workers(2).with_policy(cleanPodPolicy=policy).build()
    observed = seen(
        job,
        a_pod(job, Role.CHIEF).exited(0),
        a_pod(job, Role.PS).exited(1),
        a_pod(job, Role.WORKER, 0).running(),
        a_pod(job, Role.WORKER, 1).running().deleting(),
    )
    assert {p.name for p in cleanup.pods_to_clean(job, observed)} == cleaned
    assert {p.name for p in cleanup.servers_to_release(job, observed)} == released


def test_chief_and_evaluator_are_not_released_while_the_evaluator_works() -> None:
    job = a_job().with_evaluator().build()
    observed = seen(job, a_pod(job, Role.CHIEF).running(), a_pod(job, Role.EVALUATOR).running())
    assert cleanup.servers_to_release(job, observed) == []
