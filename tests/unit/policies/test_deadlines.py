"""When each deadline falls due."""

from __future__ import annotations

import pytest
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.policies import deadlines

from tests.unit.builders import JobBuilder, a_condition, a_job, at, stamp


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
        pytest.param(
            a_job().with_status(first_running_time=stamp(5)), None, id="it ran, so never again"
        ),
        pytest.param(
            a_job().with_status(start_time=stamp(500)), 1100, id="from when it was resumed"
        ),
        pytest.param(a_job().with_status(attempt=2), None, id="an older operator stored a restart"),
        pytest.param(
            a_job().with_status(a_condition(ConditionType.RUNNING)),
            None,
            id="an older operator stored that it runs",
        ),
        pytest.param(
            a_job().with_status(attempt=2, cluster_workers=1),
            600,
            id="restarts without ever running",
        ),
    ],
)
def test_startup_deadline(job: JobBuilder, due: float | None) -> None:
    assert deadlines.startup_deadline(job.build()) == (None if due is None else at(due))


@pytest.mark.parametrize(
    ("job", "due"),
    [
        pytest.param(a_job().with_status(interrupted_time=stamp(5)), None, id="off by default"),
        pytest.param(
            a_job().with_policy(recoveryDeadlineSeconds=60).with_status(), None, id="it runs"
        ),
        pytest.param(
            a_job().with_policy(recoveryDeadlineSeconds=60).with_status(interrupted_time=stamp(5)),
            65,
            id="from the interruption",
        ),
    ],
)
def test_recovery_deadline(job: JobBuilder, due: float | None) -> None:
    assert deadlines.recovery_deadline(job.build()) == (None if due is None else at(due))


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
