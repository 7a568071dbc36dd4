"""What one look at a job costs that has as many pods as a job can have."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.api.status import GangStatus
from tftraining_operator.core import desired
from tftraining_operator.core.decide import decide
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.observed import Pod
from tftraining_operator.core.plan import make_plan
from tftraining_operator.core.podtemplate import template

from tests.unit.builders import (
    IMAGE,
    JobBuilder,
    PodBuilder,
    a_condition,
    a_job,
    a_pod,
    at,
    seen,
    stamp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 100
"""Enough to tell what is compared with each of the others."""


def pods(job: JobBuilder, change: Callable[[PodBuilder], PodBuilder]) -> list[PodBuilder]:
    built = job.build()
    workers = [change(a_pod(built, Role.WORKER, index)) for index in range(WORKERS)]
    return [*workers, a_pod(built, Role.CHIEF).running()]


@pytest.mark.parametrize(
    ("job", "change"),
    [
        pytest.param(
            a_job().with_policy(suspend=True).with_status(),
            lambda pod: pod.running().deleting(),
            id="suspended, and all end",
        ),
        pytest.param(
            a_job().with_status(
                a_condition(ConditionType.SUCCEEDED),
                a_condition(ConditionType.FINISHED),
                completion_time=stamp(),
            ),
            lambda pod: pod.running().deleting(),
            id="finished, and all end",
        ),
        pytest.param(a_job().with_status(), lambda pod: pod.exited(137), id="all nodes are lost"),
        pytest.param(a_job().with_status(), lambda pod: pod.evicted(), id="all are evicted"),
        pytest.param(
            a_job().with_status(attempt=1),
            lambda pod: pod.exited(1),
            id="all fail beside a stale chief",
        ),
    ],
)
def test_no_pod_is_compared_with_all_others(
    job: JobBuilder, change: Callable[[PodBuilder], PodBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    job.with_workers(WORKERS)
    observed = seen(job.build(), *pods(job, change))
    compared = 0

    def same(one: Pod, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    monkeypatch.setattr(Pod, "__eq__", same)
    decide(job.build(), observed, Facts(), at(3600))
    assert compared <= WORKERS


def test_the_members_of_a_cluster_are_found_without_a_search_for_each() -> None:
    class Unsearched(list[int]):
        def __contains__(self, _: object) -> bool:
            raise AssertionError("1,000 workers and 999 excluded ones make a million comparisons")

    job = a_job().with_workers(WORKERS).build()
    excluded = Unsearched(range(1, WORKERS))
    job = replace(job, status=job.status.model_copy(update={"excluded_workers": excluded}))
    assert list(job.members(Role.WORKER)) == [0]


def test_the_requests_of_a_gang_are_added_once_a_role() -> None:
    class Counted(dict[str, Any]):
        reads = 0

        def get(self, key: str, default: Any = None) -> Any:
            Counted.reads += key == "initContainers"
            return super().get(key, default)

    job = a_job().with_workers(WORKERS).build()
    found = template(job, Role.WORKER)
    job.templates[Role.WORKER] = {**found, "spec": Counted(found["spec"])}
    gang = GangStatus(
        scheduler=Gang.IN_TREE, group="g", attempt=0, members=102, waiting_since=stamp()
    )
    assert desired.pod_groups(job, gang, "v1")
    assert Counted.reads == 1


def test_a_plan_holds_no_bodies_of_the_pods_to_create() -> None:
    job = a_job().named("n" * 42).with_workers(2 * WORKERS).build()
    observed = seen(job)
    decision = decide(job, observed, Facts(), at(0))
    tracemalloc.start()
    try:
        plan = make_plan(job, observed, decision, IMAGE)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(plan.pods) == len(decision.creations)
    assert kept < 500_000, "one TF_CONFIG has 20 KB"
