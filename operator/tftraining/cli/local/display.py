"""Shows a run: a progress bar below the events, or plain lines if the output is no terminal."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column
from rich.text import Text
from tftraining_operator.api.keys import Role
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.events import Event, EventType
from tftraining_operator.core.job import Job
from tftraining_operator.core.text import one_line

from tftraining.cli.local import messages
from tftraining.cli.local.logs import Logs

_PLAIN_SECONDS = 5.0
_NOTE_LIMIT = 600
_MIN_BAR, _MAX_BAR = 6, 24
_BESIDE = 74
"""Columns of what stands beside the bar: what trains, percent, rates, loss and the time left."""
_COLOURS = {Role.CHIEF: "green", Role.WORKER: "cyan", Role.PS: "magenta", Role.EVALUATOR: "yellow"}
_STOPPING = "stopping: waiting for the chief to save a checkpoint (Ctrl-C again to stop at once)"


class Display:
    """Common to both kinds: events and, on request, the output of all processes."""

    def __init__(self, console: Console, logs: Logs | None) -> None:
        self.console = console
        self._logs = logs
        self._began = time.monotonic()
        self.stopping = False

    def show_events(self, events: list[Event]) -> None:
        """Show events, with the seconds since the start."""
        for event in messages.without_repetition(events):
            self.print(
                one_line(event.note, _NOTE_LIMIT),
                "yellow" if event.type is EventType.WARNING else "",
            )

    def print(self, text: str, colour: str = "") -> None:
        """Show one line with the seconds since the start."""
        seconds = f"{time.monotonic() - self._began:6.1f} s  "
        self.console.print(Text.assemble((seconds, "dim"), (text, colour)), soft_wrap=True)

    def update(self, job: Job, examples_per_second: float | None) -> None:
        """Show how far the job is."""
        for name, text in self._logs.new_lines() if self._logs is not None else ():
            role = name.removeprefix(f"{job.name}-")
            colour = _COLOURS[Role(role.rpartition("-")[0])]
            self.console.print(Text.assemble((f"{role:12} ", colour), text), soft_wrap=True)
        self.show(job, examples_per_second)

    def show_stopping(self) -> None:
        """Show that the run waits for the chief, and how to stop at once."""
        self.stopping = True
        self.print(_STOPPING, "yellow")

    def show(self, job: Job, examples_per_second: float | None) -> None:
        """Show the progress itself."""
        raise NotImplementedError

    def close(self) -> None:
        """Restore the terminal."""


class PlainDisplay(Display):
    """Prints a line when something changes, at most one every few seconds."""

    def __init__(self, console: Console, logs: Logs | None) -> None:
        super().__init__(console, logs)
        self._shown = ""
        self._due = time.monotonic() + _PLAIN_SECONDS

    def show(self, job: Job, examples_per_second: float | None) -> None:
        """Print the progress if it has changed and the last line is old enough."""
        status, now = job.status, time.monotonic()
        finished = is_finished(status)
        if self.stopping or (now < self._due and not finished):
            return
        if finished and status.progress is None:
            return
        if status.progress is None or messages.is_waiting(status):
            text = f"waiting: {messages.waiting_reason(status)}"
        else:
            text = messages.progress_line(status.progress, examples_per_second)
        if text != self._shown:
            self.print(text)
            self._shown, self._due = text, now + _PLAIN_SECONDS


class BarDisplay(Display):
    """Shows a bar for the training with its rates, or the evaluation beside it."""

    def __init__(self, console: Console, logs: Logs | None) -> None:
        super().__init__(console, logs)
        self._bars = Progress(
            TextColumn("{task.description:>10}", table_column=Column(no_wrap=True, min_width=10)),
            BarColumn(bar_width=min(_MAX_BAR, max(_MIN_BAR, console.width - _BESIDE))),
            TextColumn("{task.fields[percent]:>4}", table_column=Column(no_wrap=True, min_width=4)),
            TextColumn(
                "{task.fields[details]}",
                style="dim",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            console=console,
            transient=True,
            expand=True,
        )
        self._training = self._bars.add_task("starting", total=None, percent="", details="")
        self._bars.start()

    def show(self, job: Job, examples_per_second: float | None) -> None:
        """Move the bar."""
        status = job.status
        progress, percent = status.progress, ""
        what, details = "waiting", messages.waiting_reason(status)
        total, done = None, 0
        if progress is not None:
            total, done = progress.total_steps, progress.step
            percent = progress.percent_text or f"step {progress.step}"
            what = "training"
            if not messages.is_waiting(status):
                details = messages.rates(progress, examples_per_second)
        if status.chief_completion_time is not None:
            what = "evaluating" if job.desired(Role.EVALUATOR) else "done"
            details = messages.evaluation(status)
        if self.stopping:
            what, details = "stopping", ""
        self._bars.update(
            self._training,
            description=what,
            total=total,
            completed=done,
            percent=percent,
            details=details,
        )

    def close(self) -> None:
        """Remove the bar."""
        self._bars.stop()


def display(console: Console, logs: Logs | None) -> Display:
    """Return the display that suits the console."""
    kind = BarDisplay if console.is_interactive else PlainDisplay
    return kind(console, logs)
