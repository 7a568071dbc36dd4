"""What a person is told of a run."""

from __future__ import annotations

import pytest
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Evaluation, Failure, Metric, Progress, Status
from tftraining_operator.cli.local import messages
from tftraining_operator.core.events import Event

from tests.unit.builders import a_condition, a_job, stamp

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


def test_who_takes_part_is_said_with_numbers() -> None:
    job = a_job().with_workers(2).with_evaluator()
    assert messages.describe_roles(job.build()) == "chief, 2 workers, ps, evaluator"
    assert messages.describe_roles(job.with_role("ps", replicas=2).build()).split(", ")[2] == "2 ps"


def test_a_line_says_how_far_how_fast_and_how_long() -> None:
    assert messages.line(PROGRESS, 25_100.0) == (
        "step 44/69 (63%), 41.5 steps/s, 25.1k examples/s, loss 0.174, 3s left"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert messages.line(Progress(step=3, updated_at=stamp()), None) == "step 3"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.512, "0.512"), (41.52, "41.5"), (970.4, "970"), (9999.0, "9999"), (25_123.0, "25.1k")],
)
def test_rates_are_rounded_for_people(number: float, text: str) -> None:
    assert messages.short(number) == text


def test_of_a_long_message_the_last_line_is_shown() -> None:
    event = Event("ExitCode", "w-0: ExitCode (exit code 1): first\nsecond\nlast: x\n", "Observe")
    assert messages.note(event) == "w-0: ExitCode (exit code 1): last: x"
    assert messages.note(Event("Created", "created 5 pods", "Create")) == "created 5 pods"


def test_a_failure_is_not_told_twice_nor_the_end_before_the_result() -> None:
    failed = Event("ExitCode", "c-0: ExitCode (exit code 75): lost", "Observe", "Warning")
    other = Event("ExitCode", "w-0: ExitCode (exit code 1): x", "Observe", "Warning")
    restart = Event("Restarting", "c-0 exited with 75: lost; restart 1 of 3", "Restart", "Warning")
    end = Event("Failed", "c-0 exited with 64", "Finish", "Warning")
    assert messages.without_repetition([failed, other, restart]) == [other, restart]
    assert messages.without_repetition([failed]) == [failed]
    assert messages.without_repetition([end]) == []


def test_while_nothing_trains_it_is_said_why() -> None:
    ready = a_condition(ConditionType.PODS_READY, value=False, message="1 of 3 pods are ready")
    assert messages.waiting(Status(conditions=[ready])) == "1 of 3 pods are ready"
    running = a_condition(ConditionType.RUNNING, message="trains")
    assert messages.waiting(Status(conditions=[ready, running])) == "the first step"
    stalled = a_condition(ConditionType.STALLED, message="waits for worker-1")
    assert messages.is_waiting(Status(conditions=[stalled]))
    assert messages.waiting(Status(conditions=[running, stalled])) == "waits for worker-1"


def test_the_result_tells_the_evaluation_else_the_training() -> None:
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


def test_a_failed_job_names_who_is_to_blame_and_where_its_log_is() -> None:
    failed = a_condition(ConditionType.FAILED, reason="PermanentFailure", message="c-0 exited")
    failure = Failure(
        role="chief", index=0, pod="c-0", reason="ExitCode", message="a\n\nb", time=stamp()
    )
    status = Status(conditions=[failed], last_failure=failure)
    assert messages.result(status) == "Failed (PermanentFailure): c-0 exited"
    assert messages.describe_failure(status, "./logs/c-0.log") == [
        "a",
        "b",
        "the whole log of c-0: ./logs/c-0.log",
    ]
    assert messages.describe_failure(Status(), "") == []
