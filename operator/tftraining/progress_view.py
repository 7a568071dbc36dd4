"""Shows a training while it runs: a live view in a terminal, lines in a pipe."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tftraining.job import TrainingJob
from tftraining.view import table, training
from tftraining.view.training import Losses
from tftraining.view.why import Why, why

_PLAIN_SECONDS = 5.0
_MAX_SPARKS = 60
_LABEL = 10
_MIN_BAR, _MAX_BAR = 10, 60
_GAPS = 3
"""Columns between label, bar and rates. The bar has a line of its own where both do not fit."""


class ProgressView:
    """A context in which `show` displays a job."""

    def __init__(self, console: Console, *, transient: bool = True) -> None:
        self._console = console
        self._transient = transient
        self._losses = Losses()
        self._live: Live | None = None
        self._shown, self._state, self._due = "", "", 0.0

    def __enter__(self) -> Self:
        if self._console.is_interactive:
            self._live = Live(
                console=self._console, refresh_per_second=4, transient=self._transient
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, seen: TrainingJob) -> None:
        """Display the present state."""
        found = why(seen.raw, seen.pods, (), seen.now)
        if seen.job is not None:
            self._losses.see(seen.job)
        if self._live is not None:
            self._live.update(self._rendered(seen, found))
            return
        text = training.plain(seen.job, str(found)) if seen.job is not None else str(found)
        # A new state is shown at once, new steps every few seconds.
        if text != self._shown and (found.state != self._state or time.monotonic() >= self._due):
            self._console.print(text, soft_wrap=True, markup=False)
            self._shown, self._state = text, found.state
            self._due = time.monotonic() + _PLAIN_SECONDS

    def _rendered(self, seen: TrainingJob, found: Why) -> Group:
        name = seen.name
        progress = seen.job.status.progress if seen.job is not None else None
        # While it trains, the line below says how.
        headline = found.state if found.state == "Running" and progress is not None else str(found)
        colour = table.colour(found.state.partition(" ")[0])
        lines: list[Text | Table] = [
            Text.assemble((f"{name:{_LABEL}} ", "bold"), (headline, colour))
        ]
        if seen.job is None:
            return Group(*lines)
        if progress is not None and progress.total_steps:
            rates = Text(training.rates(seen.job), overflow="ellipsis", no_wrap=True)
            room = self._console.width - _LABEL - _GAPS
            beside = room - rates.cell_len >= _MIN_BAR
            width = min(_MAX_BAR, max(_MIN_BAR, room - rates.cell_len if beside else room))
            done = ProgressBar(total=progress.total_steps, completed=progress.step, width=width)
            for row in ((done, rates),) if beside else ((done,), (rates,)):
                line = Table.grid(padding=(0, 1))
                line.add_row(Text(" " * _LABEL), *row)
                lines.append(line)
        sparks = training.sparkline(
            self._losses.values, min(_MAX_SPARKS, max(10, self._console.width - 30))
        )
        if sparks:
            first, last = self._losses.values[0], self._losses.values[-1]
            text = f"{'loss':>{_LABEL}} {first:.4g} {sparks} {last:.4g}"
            lines.append(Text(text, no_wrap=True, overflow="ellipsis"))
        for role, text in training.role_lines(seen.job, seen.pods, seen.now):
            lines.append(
                Text(
                    f"{'':{_LABEL}} {text}",
                    style=training.ROLE_COLOURS[role],
                    no_wrap=True,
                    overflow="ellipsis",
                )
            )
        return Group(*lines)
