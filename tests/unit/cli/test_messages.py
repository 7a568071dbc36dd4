"""The texts of a local run."""

from __future__ import annotations

import pytest
from tftraining.cli.local import messages
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Evaluation, Failure, Metric, Progress, Status
from tftraining_operator.core.events import Action, Event, EventType

from tests.unit.builders import a_condition, stamp

PROGRESS = Progress(
    step=44,
    total_steps=69,
    percent=63,
    percent_text="63%",
    eta_text="3s",
    steps_per_second="41.5",
    metrics=[Metric(name="accuracy", value="0.9"), Metric(name="loss", value="0.174")],
    loss="0.174",
    updated_at=stamp(),
)
DONE = a_condition(ConditionType.SUCCEEDED, reason="ChiefSucceeded")


def test_a_line_shows_progress_rates_and_time_left() -> None:
    assert messages.progress_line(PROGRESS, 25_100.0) == (
        "step 44/69 (63%), 41.5 steps/s, 25.1k examples/s, loss 0.174, 3s left"
    )


def test_unknown_values_are_left_out() -> None:
    assert messages.progress_line(Progress(step=3, updated_at=stamp()), None) == "step 3"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.512, "0.512"), (41.52, "41.5"), (970.4, "970"), (9999.0, "9999"), (25_123.0, "25.1k")],
)
def test_rates_are_rounded_for_people(number: float, text: str) -> None:
    assert messages.round_rate(number) == text


def test_a_failure_that_restarts_the_job_and_the_end_are_shown_once() -> None:
    failed = Event("ExitCode", "c-0 exited with 75", Action.OBSERVE, EventType.WARNING, pod="c-0")
    other = Event("ExitCode", "w-0 exited with 1", Action.OBSERVE, EventType.WARNING, pod="w-0")
    restart = Event("Restarting", "restart 1 of 3", Action.RESTART, EventType.WARNING, pod="c-0")
    end = Event("Failed", "c-0 exited with 64", Action.FINISH, EventType.WARNING, pod="c-0")
    assert messages.without_repetition([failed, other, restart]) == [other, restart]
    assert messages.without_repetition([failed]) == [failed]
    created, scaled = (
        Event("Created", "created", Action.CREATE),
        Event("Scaled", "scaled", Action.RESTART),
    )
    assert messages.without_repetition([created, scaled]) == [created, scaled]
    assert messages.without_repetition([end]) == []


def test_a_waiting_job_shows_its_reason() -> None:
    ready = a_condition(ConditionType.PODS_READY, value=False, message="1 of 3 pods are ready")
    assert messages.waiting_reason(Status(conditions=[ready])) == "1 of 3 pods are ready"
    running = a_condition(ConditionType.RUNNING, message="trains")
    assert messages.waiting_reason(Status(conditions=[ready, running])) == "the first step"
    stalled = a_condition(ConditionType.STALLED, message="waits for worker-1")
    assert messages.is_waiting(Status(conditions=[stalled]))
    assert messages.waiting_reason(Status(conditions=[running, stalled])) == "waits for worker-1"


def test_the_result_shows_the_evaluation_or_else_the_training() -> None:
    status = Status(
        conditions=[DONE], start_time=stamp(), completion_time=stamp(26), progress=PROGRESS
    )
    assert messages.result(status) == ("Succeeded after 26 s; accuracy 0.9, loss 0.174 in training")
    measured = Evaluation(step=69, metrics=[Metric(name="accuracy", value="0.96")], final=True)
    assert messages.result(status.model_copy(update={"evaluation": measured})) == (
        "Succeeded after 26 s; evaluation: accuracy 0.96 at step 69"
    )


def test_a_success_without_evaluation_says_so() -> None:
    missing = a_condition(ConditionType.SUCCEEDED, reason="NotEvaluated", message="not evaluated")
    assert messages.result(Status(conditions=[missing])) == "Succeeded; not evaluated"


def test_a_failed_job_names_the_pod_that_failed_and_its_log() -> None:
    failed = a_condition(ConditionType.FAILED, reason="PermanentFailure", message="c-0 exited")
    failure = Failure(
        role="chief", index=0, pod="c-0", reason="ExitCode", message="a\n\nb", time=stamp()
    )
    status = Status(conditions=[failed], last_failure=failure)
    assert messages.result(status) == "Failed (PermanentFailure): c-0 exited"
    assert messages.failure_details(status, "./logs/c-0.log") == [
        "a",
        "b",
        "full log of c-0: ./logs/c-0.log",
    ]
    assert messages.failure_details(Status(), "") == []


@pytest.mark.parametrize(
    ("message", "details"),
    [
        pytest.param("c-0 exited with 1: boom", [], id="it stands in the result"),
        pytest.param("not finished in time", ["boom"], id="it does not"),
    ],
)
def test_one_line_of_a_failure_is_shown_once(message: str, details: list[str]) -> None:
    failed = a_condition(ConditionType.FAILED, reason="BackoffLimitExceeded", message=message)
    failure = Failure(
        role="chief", index=0, pod="c-0", reason="ExitCode", message="boom", time=stamp()
    )
    status = Status(conditions=[failed], last_failure=failure)
    assert messages.failure_details(status, "x.log") == [*details, "full log of c-0: x.log"]
