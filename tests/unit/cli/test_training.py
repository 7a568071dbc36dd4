"""What `tftj progress` shows."""

from __future__ import annotations

import io
import itertools

import pytest
from rich.console import Console
from tftraining.job import TrainingJob
from tftraining.progress_view import ProgressView
from tftraining.view import training
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Metric, Progress

from tests.unit.builders import NOW, JobBuilder, a_condition, a_job, a_pod, stamp


def a_running_job(step: int = 50, loss: str | None = "0.5") -> JobBuilder:
    progress = Progress(
        step=step,
        total_steps=200,
        percent=step // 2,
        percent_text=f"{step // 2}%",
        eta_text="30s",
        steps_per_second="5",
        metrics=[Metric(name="loss", value=loss)] if loss else [],
        loss=loss,
        updated_at=stamp(),
    )
    conditions = [a_condition(ConditionType.RUNNING), a_condition(ConditionType.PODS_READY)]
    return a_job().with_status(
        *conditions, state="Running", progress=progress, observed_generation=1
    )


def test_roles_are_listed_with_their_replicas() -> None:
    job = a_job().with_workers(2).with_evaluator()
    assert training.describe_roles(job.build()) == "chief, 2 workers, ps, evaluator"
    assert training.describe_roles(job.with_role("ps", replicas=2).build()).split(", ")[2] == "2 ps"


def seen(job: JobBuilder) -> TrainingJob:
    built = job.build()
    pods = [a_pod(built, Role.CHIEF).running().raw, a_pod(built, Role.PS).running().raw]
    return TrainingJob(job.raw, built, pods, NOW)


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [
        pytest.param([1.0], 9, "", id="one value has no course"),
        pytest.param([8.0, 4.0, 1.0], 9, "█▄▁", id="falling"),
        pytest.param([9.0, 8.0, 1.0], 2, "█▁", id="the newest that fit"),
        pytest.param([2.0, 2.0], 9, "▁▁", id="no change"),
        pytest.param([2.0, float("nan"), 1.0], 9, "█ ▁", id="what is no number is blank"),
    ],
)
def test_a_sparkline_shows_the_course(values: list[float], width: int, expected: str) -> None:
    assert training.sparkline(values, width) == expected


def test_a_loss_counts_once_for_each_step() -> None:
    losses = training.Losses()
    for step, loss in ((1, "3"), (1, "3"), (2, "2"), (3, None)):
        losses.see(a_running_job(step, loss).build())
    assert losses.values == [3.0, 2.0]


def test_repeated_steps_replace_those_before_the_restart() -> None:
    losses = training.Losses()
    for step, loss in ((10, "4"), (20, "3"), (30, "2"), (25, "5"), (40, "1")):
        losses.see(a_running_job(step, loss).build())
    assert losses.points == [(10, 4.0), (20, 3.0), (25, 5.0), (40, 1.0)]


def test_a_long_course_keeps_its_ends_and_evenly_spaced_points() -> None:
    losses = training.Losses()
    for step in range(1, 1201):
        losses.see(a_running_job(step).build())
    steps = [step for step, _ in losses.points]
    assert len(steps) <= 400
    assert (steps[0], steps[-1]) == (1, 1200)
    gaps = [later - earlier for earlier, later in itertools.pairwise(steps[:-1])]
    assert max(gaps) <= 2 * min(gaps)


def test_each_role_says_who_is_not_ready() -> None:
    now = seen(a_running_job())
    assert now.job is not None
    expected = [
        (Role.CHIEF, "chief     1/1"),
        (Role.WORKER, "worker    0/1  not ready: worker-0"),
        (Role.PS, "ps        1/1"),
    ]
    assert training.role_lines(now.job, now.pods, NOW) == expected


def test_a_pipe_gets_lines_without_repetition() -> None:
    out = io.StringIO()
    with ProgressView(Console(file=out, width=40)) as view:
        for _ in range(2):
            view.show(seen(a_job()))
        view.show(seen(a_running_job()))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("Unseen: ")
    assert lines[1:] == ["Running: step 50 of 200, 25%, 5 steps/s, loss 0.5, 30s left"]


def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, _environ={"TERM": "dumb"})
    with ProgressView(console) as view:
        view.show(seen(a_running_job()))
    assert "Running: step 50 of 200, 25%" in out.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_gets_a_bar_a_sparkline_and_the_roles(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, no_color=True)
    with ProgressView(console, transient=False) as view:
        for step, loss in ((10, "3.0"), (50, "0.5")):
            view.show(seen(a_running_job(step, loss)))
    text = out.getvalue()
    assert "\x1b[32m" not in text, "colours are off"
    for words in ("25%", "━", "loss 3 █▁ 0.5", "worker 0/1 not ready: worker-0"):
        assert words in " ".join(text.split())


@pytest.mark.parametrize(("width", "beside"), [(80, False), (110, True), (160, True)])
def test_the_time_left_is_shown_whole_and_the_bar_beside_or_above(
    width: int,
    beside: bool,  # noqa: FBT001
) -> None:
    progress = Progress(
        step=1245,
        total_steps=2160,
        percent=57,
        percent_text="57%",
        eta_text="1m36s",
        steps_per_second="9.551",
        loss="0.01331",
        updated_at=stamp(),
    )
    job = a_running_job()
    job.raw["status"]["progress"] = progress.model_dump(by_alias=True, exclude_none=True)
    out = io.StringIO()
    with ProgressView(Console(file=out, width=width, force_terminal=True), transient=False) as view:
        view.show(seen(job))
    (bar,) = {line for line in out.getvalue().splitlines() if "━" in line}
    assert ("9.551 steps/s, loss 0.01331, 1m36s left" in bar) is beside
    assert "9.551 steps/s, loss 0.01331, 1m36s left" in out.getvalue()
