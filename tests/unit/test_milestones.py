"""Which stages of a job a written status ends, and how long they took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Progress, Restart, Status
from tftraining_operator.core.milestones import (
    JobEnd,
    Stage,
    StageEnd,
    job_end,
    restart_reason,
    stage_ends,
)
from tftraining_operator.core.progress import Report

from tests.unit.builders import a_condition, a_job, stamp
from tests.unit.fakes import FakeCluster, Operator

if TYPE_CHECKING:
    import asyncio

    from tests.unit.builders import Raw

READY = ConditionType.PODS_READY
NOT_READY_SINCE_START = a_condition(READY, value=False, since=5)


def progress(step: int, *, seconds: float, resumed: int | None = None) -> Progress:
    return Progress(
        step=step,
        updated_at=stamp(seconds + 3),
        last_step_time=stamp(seconds),
        resumed_step=resumed,
    )


def a_status(*conditions: object, **fields: object) -> Status:
    return Status.model_validate({"conditions": list(conditions), **fields})


STARTED = {"start_time": stamp(5)}
RUNNING = STARTED | {"first_running_time": stamp(20)}
DONE = RUNNING | {"chief_completion_time": stamp(80)}
EVALUATOR = [
    {"name": "evaluator", "desired": 1, "ready": 1, "active": 1, "succeeded": 0, "failed": 0}
]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(a_status(), a_status(**STARTED), [(Stage.QUEUE, 5)], id="it is started"),
        pytest.param(
            a_status(active_seconds=9),
            a_status(**STARTED, active_seconds=9),
            [],
            id="it is resumed, so was in no queue before",
        ),
        pytest.param(
            a_status(NOT_READY_SINCE_START, **STARTED),
            a_status(a_condition(READY, since=12), **STARTED),
            [(Stage.START, 7)],
            id="all its pods are ready",
        ),
        pytest.param(
            a_status(a_condition(READY, value=False, since=2), **STARTED),
            a_status(a_condition(READY, since=12), **STARTED),
            [(Stage.START, 7)],
            id="all its pods are ready after it was created suspended",
        ),
        pytest.param(
            a_status(a_condition(READY, value=False, since=30), **RUNNING),
            a_status(a_condition(READY, since=40), **RUNNING),
            [],
            id="a pod that was replaced is ready",
        ),
        pytest.param(
            a_status(**RUNNING, progress=progress(0, seconds=21)),
            a_status(**RUNNING, progress=progress(4, seconds=25)),
            [(Stage.FIRST_STEP, 5)],
            id="the first step",
        ),
        pytest.param(
            a_status(**RUNNING),
            a_status(**RUNNING, progress=progress(300, seconds=25, resumed=300)),
            [],
            id="a training that is resumed has not stepped yet",
        ),
        pytest.param(
            a_status(**RUNNING, progress=progress(4, seconds=25)),
            a_status(**RUNNING, progress=progress(5, seconds=26)),
            [],
            id="a further step",
        ),
        pytest.param(
            a_status(**RUNNING, attempt=1, progress=progress(0, seconds=40)),
            a_status(**RUNNING, attempt=1, progress=progress(5, seconds=46)),
            [],
            id="the first step of another attempt",
        ),
        pytest.param(
            a_status(**RUNNING), a_status(**DONE), [(Stage.TRAINING, 60)], id="the chief succeeded"
        ),
        pytest.param(
            a_status(**DONE, roles=EVALUATOR),
            a_status(**DONE, roles=EVALUATOR, completion_time=stamp(95)),
            [(Stage.EVALUATION, 15)],
            id="the last checkpoint is evaluated",
        ),
        pytest.param(
            a_status(**DONE),
            a_status(**DONE, completion_time=stamp(80)),
            [],
            id="there is no evaluator",
        ),
        pytest.param(
            a_status(**RUNNING),
            a_status(**DONE | {"chief_completion_time": stamp(19)}),
            [(Stage.TRAINING, 0)],
            id="a clock that is behind makes no time negative",
        ),
    ],
)
def test_a_stage_is_found_in_the_status_that_ends_it(
    before: Status, after: Status, expected: list[tuple[Stage, float]]
) -> None:
    found = list(stage_ends(before, after, stamp()))
    assert found == [StageEnd(stage, seconds) for stage, seconds in expected]


@pytest.mark.parametrize("kind", [ConditionType.SUCCEEDED, ConditionType.FAILED])
def test_the_end_of_a_job_is_found_once_with_its_reason(kind: ConditionType) -> None:
    ended = a_status(a_condition(kind, reason="Why"), **DONE, completion_time=stamp(90))
    succeeded = kind is ConditionType.SUCCEEDED
    assert job_end(a_status(**DONE), ended, stamp()) == JobEnd(succeeded, "Why", 90)
    assert job_end(ended, ended, stamp()) is None
    assert job_end(a_status(), a_status(**DONE), stamp()) is None


def test_a_restart_is_found_once_with_its_reason() -> None:
    restarted = a_status(
        attempt=1, last_restart=Restart(reason="Stalled", time=stamp(9), counted=True)
    )
    assert restart_reason(a_status(), restarted) == "Stalled"
    assert restart_reason(restarted, restarted.model_copy(update={"state": "Running"})) is None
    assert restart_reason(a_status(), a_status()) is None


def test_every_stage_of_a_whole_life_is_found_once(
    cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    found: list[tuple[Stage, float]] = []
    ends: list[JobEnd] = []

    def observe(raw: Raw, before: Status, after: Status) -> None:
        created = raw["metadata"]["creationTimestamp"]
        found.extend((end.stage, end.seconds) for end in stage_ends(before, after, created))
        ends.extend(filter(None, [job_end(before, after, created)]))

    operator = Operator(cluster, runner, observe=observe)
    key = cluster.submit(a_job().with_evaluator().raw)
    operator.wait(10)
    cluster.run_pods()
    operator.wait(3)
    operator.progress.told[Role.CHIEF] = Report(step=2, seconds_since_step=1)
    operator.look(key)
    operator.wait(20)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.wait(5)
    cluster.act("mnist-evaluator-0", lambda pod: pod.exited(0))
    operator.wait(5)
    assert [stage for stage, _ in found] == list(Stage)
    assert [end.succeeded for end in ends] == [True]
