"""When each deadline falls due."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Failure, Progress
from tftraining_operator.core.policies import deadlines

from tests.unit.builders import JobBuilder, a_condition, a_job, at, stamp

RUNNING = ConditionType.RUNNING


@pytest.mark.parametrize(
    ("job", "due"),
    [
        pytest.param(a_job().with_status(), None, id="none is set"),
        pytest.param(a_job().with_policy(activeDeadlineSeconds=60), None, id="not started"),
        pytest.param(
            a_job().with_policy(activeDeadlineSeconds=60).with_status(), 60, id="from the start"
        ),
        pytest.param(
            a_job().with_policy(activeDeadlineSeconds=60).with_status(active_seconds=50),
            10,
            id="less what was used before a suspension",
        ),
        pytest.param(
            a_job()
            .with_policy(activeDeadlineSeconds=60)
            .with_status(start_time=None, active_seconds=50),
            None,
            id="paused while suspended",
        ),
    ],
)
def test_active_deadline(job: JobBuilder, due: float | None) -> None:
    assert deadlines.active_deadline(job.build()) == (None if due is None else at(due))


@pytest.mark.parametrize(
    ("job", "due"),
    [
        pytest.param(a_job(), None, id="not started"),
        pytest.param(a_job().with_status(), 600, id="from the start"),
        pytest.param(a_job().with_status(a_condition(RUNNING)), None, id="it runs"),
        pytest.param(
            a_job().with_status(a_condition(RUNNING, value=False, since=1000)),
            1600,
            id="from when it last stopped running",
        ),
        pytest.param(
            a_job().with_status(a_condition(RUNNING, value=False), start_time=stamp(500)),
            1100,
            id="from when it was resumed",
        ),
    ],
)
def test_startup_deadline(job: JobBuilder, due: float | None) -> None:
    assert deadlines.startup_deadline(job.build()) == (None if due is None else at(due))


def progress(seconds: float) -> Progress:
    return Progress(step=1, updated_at=stamp(seconds))


@pytest.mark.parametrize(
    ("job", "due"),
    [
        pytest.param(a_job().with_status(a_condition(RUNNING)), None, id="none is set"),
        pytest.param(
            a_job().with_policy(stallTimeoutSeconds=90).with_status(), None, id="no chief"
        ),
        pytest.param(
            a_job().with_policy(stallTimeoutSeconds=90).with_status(a_condition(RUNNING)),
            90,
            id="from when it began to run",
        ),
        pytest.param(
            a_job()
            .with_policy(stallTimeoutSeconds=90)
            .with_status(a_condition(RUNNING), progress=progress(30)),
            120,
            id="from its last step",
        ),
        pytest.param(
            a_job()
            .with_policy(stallTimeoutSeconds=90)
            .with_status(a_condition(RUNNING, since=200), progress=progress(30)),
            290,
            id="a step of an earlier attempt is none",
        ),
    ],
)
def test_stall_deadline(job: JobBuilder, due: float | None) -> None:
    assert deadlines.stall_deadline(job.build()) == (None if due is None else at(due))


def test_a_step_counts_from_when_it_was_made() -> None:
    seen_late = Progress(step=1, updated_at=stamp(34), last_step_time=stamp(30))
    job = a_job().with_policy(stallTimeoutSeconds=90)
    job.with_status(a_condition(RUNNING), progress=seen_late)
    assert deadlines.stall_deadline(job.build()) == at(120)


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        pytest.param({}, 90, id="a minute after the last step"),
        pytest.param({"steps_per_second": "0.05"}, 230, id="ten steps, where one takes long"),
        pytest.param({"steps_per_second": "1e-9"}, 3630, id="an hour at most"),
        pytest.param({"steps_per_second": "0"}, 90, id="without a rate"),
        pytest.param({"total_steps": 2}, 90, id="more steps to make"),
        pytest.param({"total_steps": 1}, None, id="all steps are made"),
    ],
)
def test_silence(fields: dict[str, Any], due: float | None) -> None:
    job = a_job().with_status(a_condition(RUNNING)).build()
    newest = Progress(step=1, updated_at=stamp(30), **fields)
    assert deadlines.silence_deadline(job, newest) == (None if due is None else at(due))


def test_who_does_not_run_or_says_nothing_is_not_silent() -> None:
    assert deadlines.silence_deadline(a_job().with_status().build(), progress(1)) is None
    running = a_job().with_status(a_condition(RUNNING)).build()
    assert deadlines.silence_deadline(running, None) is None


def test_the_evaluators_grace_begins_at_the_chiefs_end() -> None:
    job = a_job().with_policy(evaluatorGraceSeconds=30).build()
    assert deadlines.evaluator_deadline(job, at(100)) == at(130)


@pytest.mark.parametrize(
    ("job", "due"),
    [
        pytest.param(a_job().with_status(completion_time=stamp(5)), None, id="kept for ever"),
        pytest.param(a_job().with_policy(ttlSecondsAfterFinished=0), None, id="not ended"),
        pytest.param(
            a_job().with_policy(ttlSecondsAfterFinished=0).with_status(completion_time=stamp(5)),
            5,
            id="0 is at once",
        ),
        pytest.param(
            a_job().with_policy(ttlSecondsAfterFinished=60).with_status(completion_time=stamp(5)),
            65,
            id="from the end",
        ),
    ],
)
def test_expiry(job: JobBuilder, due: float | None) -> None:
    assert deadlines.expiry(job.build()) == (None if due is None else at(due))


def failed(role: str = "chief") -> Failure:
    return Failure(role=role, index=0, pod=f"mnist-{role}-0", reason="ExitCode", time=stamp(100))


@pytest.mark.parametrize(
    ("restarts", "delay"),
    [
        pytest.param(0, None, id="the first chief waits for nothing"),
        pytest.param(1, None, id="nor does the second"),
        pytest.param(2, 10, id="then 10 s"),
        pytest.param(3, 20, id="20"),
        pytest.param(6, 160, id="160"),
        pytest.param(7, 300, id="at most 300"),
        pytest.param(1000, 300, id="and never more"),
    ],
)
def test_the_next_chief_waits_ever_longer(restarts: int, delay: float | None) -> None:
    job = a_job().with_status(restarts=restarts, last_failure=failed()).build()
    assert deadlines.restart_due(job) == (None if delay is None else at(100 + delay))


def test_a_server_that_fails_again_and_again_does_not_put_the_chief_off() -> None:
    restarting = a_condition(ConditionType.RESTARTING, since=40)
    job = a_job().with_status(restarting, restarts=3, last_failure=failed("worker")).build()
    assert deadlines.restart_due(job) == at(60)


@pytest.mark.parametrize("reason", ["Disrupted", "NodeLost"])
def test_what_is_not_counted_is_not_put_off(reason: str) -> None:
    restarting = a_condition(ConditionType.RESTARTING, since=40, reason=reason)
    job = a_job().with_status(restarting, restarts=3, last_failure=failed()).build()
    assert deadlines.restart_due(job) is None
    over = a_condition(ConditionType.RESTARTING, value=False, since=50, reason=reason)
    job = a_job().with_status(over, restarts=3, last_failure=failed()).build()
    assert deadlines.restart_due(job) == at(120)


def test_a_worker_of_a_gang_is_waited_for_as_the_chief_is() -> None:
    job = a_job().mirrored(workers=2).with_status(restarts=3, last_failure=failed("worker"))
    assert deadlines.restart_due(job.build()) == at(120)
