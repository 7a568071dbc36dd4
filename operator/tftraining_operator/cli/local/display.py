"""Shows a run: a bar and what happens above it, or plain lines where there is no terminal."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column
from rich.text import Text

from tftraining_operator.api.keys import Role
from tftraining_operator.cli.local import messages
from tftraining_operator.cli.local.logs import Logs
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.events import Event
from tftraining_operator.core.job import Job

_PLAIN_SECONDS = 5.0
_COLOURS = {Role.CHIEF: "green", Role.WORKER: "cyan", Role.PS: "magenta", Role.EVALUATOR: "yellow"}
_ENDING = "ending: the chief may save a checkpoint first (Ctrl-C again: at once)"


class Display:
    """What both kinds have in common: events and, if wanted, the logs of all processes."""

    def __init__(self, console: Console, logs: Logs | None) -> None:
        self.console = console
        self._logs = logs
        self._began = time.monotonic()
        self.ends = False

    def tell(self, events: list[Event]) -> None:
        """Show what has happened, with the seconds since the start."""
        for event in messages.without_repetition(events):
            self.say(messages.note(event), "yellow" if event.type == "Warning" else "")

    def say(self, text: str, colour: str = "") -> None:
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

    def ending(self) -> None:
        """Say that the chief saves, and how not to wait for it."""
        self.ends = True
        self.say(_ENDING, "yellow")

    def show(self, job: Job, examples_per_second: float | None) -> None:
        """Show the progress itself."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the terminal as it was."""


class PlainDisplay(Display):
    """A line when something changes, at most one every few seconds."""

    def __init__(self, console: Console, logs: Logs | None) -> None:
        super().__init__(console, logs)
        self._said = ""
        self._due = time.monotonic() + _PLAIN_SECONDS

    def show(self, job: Job, examples_per_second: float | None) -> None:
        """Say how far the training is, if that is due and new."""
        status, now = job.status, time.monotonic()
        if self.ends or (now < self._due and not is_finished(status)):
            return
        if status.progress is None or messages.is_waiting(status):
            text = f"waiting: {messages.waiting(status)}"
        else:
            text = messages.line(status.progress, examples_per_second)
        if text != self._said:
            self.say(text)
            self._said, self._due = text, now + _PLAIN_SECONDS


class BarDisplay(Display):
    """A bar for the training, and beside it what the evaluator has measured."""

    def __init__(self, console: Console, logs: Logs | None) -> None:
        super().__init__(console, logs)
        self._bars = Progress(
            TextColumn("{task.description:>10}", table_column=Column(no_wrap=True, min_width=10)),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[percent]:>4}", table_column=Column(no_wrap=True, min_width=4)),
            TextColumn(
                "{task.fields[told]}",
                style="dim",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            console=console,
            transient=True,
            expand=True,
        )
        self._training = self._bars.add_task("starting", total=None, percent="", told="")
        self._bars.start()

    def show(self, job: Job, examples_per_second: float | None) -> None:
        """Move the bar."""
        status = job.status
        progress, told, what, percent = status.progress, messages.waiting(status), "waiting", ""
        total, done = None, 0
        if progress is not None:
            total, done = progress.total_steps, progress.step
            percent = progress.percent_text or f"step {progress.step}"
            what = "training"
            if not messages.is_waiting(status):
                told = messages.rates(progress, examples_per_second)
        if status.chief_completion_time is not None:
            what = "evaluating" if job.desired(Role.EVALUATOR) else "done"
            told = messages.evaluation(status)
        if self.ends:
            what, told = "ending", ""
        self._bars.update(
            self._training,
            description=what,
            total=total,
            completed=done,
            percent=percent,
            told=told,
        )

    def close(self) -> None:
        """Take the bar away."""
        self._bars.stop()


def display(console: Console, logs: Logs | None) -> Display:
    """Return what suits the console."""
    kind = BarDisplay if console.is_terminal else PlainDisplay
    return kind(console, logs)
