"""The chief decides; the evaluator gets its grace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.policies import success

from tests.unit.builders import PodBuilder, a_job, a_pod, at, seen

if TYPE_CHECKING:
    from collections.abc import Callable

JOB = a_job().build()
EVALUATED = a_job().with_evaluator().build()


@pytest.mark.parametrize(
    ("state", "completed"),
    [
        pytest.param(lambda p: p.exited(0, seconds=7), True, id="it ended well"),
        pytest.param(lambda p: p.exited(1), False, id="it failed"),
        pytest.param(lambda p: p.running(), False, id="it runs"),
        pytest.param(
            lambda p: p.exited(0, seconds=7).deleting(),
            False,
            id="it obeyed a deletion: that is no success",
        ),
    ],
)
def test_chief_completed(state: Callable[[PodBuilder], PodBuilder], *, completed: bool) -> None:
    found = success.chief_completed(JOB, seen(JOB, state(a_pod(JOB, Role.CHIEF))), at(60))
    assert found == (at(60) if completed else None), "not by its node's clock"


def test_workers_do_not_decide() -> None:
    observed = seen(JOB, a_pod(JOB, Role.WORKER).exited(0), a_pod(JOB, Role.PS).exited(0))
    assert success.chief_completed(JOB, observed, at(0)) is None


def test_a_stored_success_outlives_its_pod() -> None:
    job = a_job().with_status(chief_completion_time="2026-01-02T03:05:05Z").build()
    assert success.chief_completed(job, seen(job), at(600)) == at(60)


@pytest.mark.parametrize(
    ("state", "now", "missing"),
    [
        pytest.param(lambda p: p.running(), 119, None, id="it still has time"),
        pytest.param(lambda p: p.running(), 120, "did not finish within 120 s", id="time is up"),
        pytest.param(lambda p: p.exited(0), 5, "", id="it is done"),
        pytest.param(lambda p: p.exited(0), 500, "", id="it was done in time or not: it is done"),
        pytest.param(lambda p: p.exited(64), 5, "exit code 64", id="it never will be"),
        pytest.param(lambda p: p.exited(1), 5, None, id="it is run again"),
        pytest.param(
            lambda p: p.restarted_in_place(64), 5, None, id="it runs again after what seemed final"
        ),
        pytest.param(
            lambda p: p.exited(0).deleting(), 5, None, id="it obeyed a deletion: that is no end"
        ),
    ],
)
def test_evaluation_missing(
    state: Callable[[PodBuilder], PodBuilder], now: float, missing: str | None
) -> None:
    observed = seen(EVALUATED, state(a_pod(EVALUATED, Role.EVALUATOR)))
    found = success.evaluation_missing(EVALUATED, observed, at(0), at(now))
    assert found == missing if not missing else missing in (found or "")


def test_a_job_without_evaluator_needs_no_evaluation() -> None:
    assert success.evaluation_missing(JOB, seen(JOB), at(0), at(0)) == ""


def test_a_lost_evaluator_has_until_the_end_of_the_grace() -> None:
    assert success.evaluation_missing(EVALUATED, seen(EVALUATED), at(0), at(119)) is None
    assert success.evaluation_missing(EVALUATED, seen(EVALUATED), at(0), at(120))
