"""What a display without a terminal prints."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from tftraining.cli import console
from tftraining.cli.local.display import PlainDisplay, display
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Metric, Progress
from tftraining_operator.core.events import Action, Event, EventType

from tests.unit.builders import a_condition, a_job, stamp

if TYPE_CHECKING:
    import pytest


def printed(*events: Event) -> list[str]:
    """The lines for some events, without the seconds since the start."""
    out = io.StringIO()
    shown = display(Console(file=out, width=200), None)
    shown.show_events(list(events))
    shown.close()
    return [line.partition(" s  ")[2] for line in out.getvalue().splitlines()]


def test_events_are_printed_one_line_each() -> None:
    created = Event("Created", "created 5 pods", Action.CREATE)
    failed = Event(
        "ExitCode", "w-0: ExitCode: x", Action.OBSERVE, EventType.WARNING, "w-0", "a\nb\nx"
    )
    assert printed(created, failed) == ["created 5 pods", "w-0: ExitCode: x"]


def test_an_event_cannot_control_the_terminal() -> None:
    event = Event("ExitCode", "w-0: ExitCode: a\x1b[2Jb\x07\nforged [red]c[/red]", Action.OBSERVE)
    assert printed(event) == ["w-0: ExitCode: ab forged [red]c[/red]"]


def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(display(console, None), PlainDisplay)


def test_a_run_goes_on_where_not_all_of_its_logs_can_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its processes would be ended, and the chief not save."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr("sys.stdout", stream)
    console.unfailing_out().print("caf\xe9 \u2713")
    assert stream.buffer.getvalue() == b"caf\xe9 ?\n"


def test_a_terminal_of_80_columns_shows_loss_and_time_left() -> None:
    progress = Progress(
        step=332,
        total_steps=810,
        percent=41,
        percent_text="41%",
        eta_seconds=125,
        eta_text="2m5s",
        steps_per_second="232.5",
        loss="0.06891",
        metrics=[Metric(name="loss", value="0.06891")],
        updated_at=stamp(),
    )
    job = a_job().with_status(a_condition(ConditionType.RUNNING), progress=progress).build()
    out = io.StringIO()
    shown = display(Console(file=out, width=80, force_terminal=True, no_color=True), None)
    shown.show(job, 15_500.0)
    shown.close()
    assert "232.5 steps/s, 15.5k examples/s, loss 0.06891, 2m5s left" in out.getvalue()
