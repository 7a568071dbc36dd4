"""Shows the progress of a cluster's first build: the last line of a terminal, or plain lines."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.cluster.steps import Progress, State
from tools.waiting import meanwhile

_LOOK_SECONDS = 0.5
_PLAIN_SECONDS = 20.0
_BAR_WIDTH = 20
_PERCENT_FROM = 0.01


def summary(state: State) -> str:
    """Return in a few words how far all steps are."""
    return f"{len(state.done)} of {state.total} done, {state.share:.0%}, {state.time_left}"


def running(state: State) -> str:
    """Return the steps that run, with their shares as far as they are known."""
    return ", ".join(
        f"{name} {share:.0%}" if share >= _PERCENT_FROM else name for name, share in state.running
    )


class View:
    """Prints each step that is done, and how far all are."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._due = clock() + _PLAIN_SECONDS
        self._known = 0

    def look(self, state: State) -> None:
        """Print what is new; in a terminal the rest is in the last line."""
        for number, name in enumerate(state.done[self._known :], self._known + 1):
            self._print(f"{number} of {state.total} done: {name}")
        self._known = len(state.done)
        if not self._console.is_terminal and self._clock() >= self._due:
            self._print(f"{summary(state)}; now: {running(state)}")
            self._due = self._clock() + _PLAIN_SECONDS

    def _print(self, text: str) -> None:
        self._console.print(Text.assemble(("· ", "dim"), text), soft_wrap=True)


def last_line(state: State) -> Table:
    """Return the last line of a terminal; it is cut to the terminal's width."""
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    bar = ProgressBar(total=1, completed=state.share, width=_BAR_WIDTH)
    line.add_row(bar, summary(state), Text(running(state), style="dim"))
    return line


@contextmanager
def shown(console: Console, progress: Progress) -> Iterator[None]:
    """Show the progress for the time of the block."""
    view = View(console)
    names = f"building the cluster in {progress.state().total} steps, {progress.state().time_left}"
    console.print(Text.assemble(("· ", "dim"), names), soft_wrap=True)

    def work(end: threading.Event) -> None:
        while not end.wait(_LOOK_SECONDS):
            view.look(progress.state())

    with (
        Live(
            console=console,
            get_renderable=lambda: last_line(progress.state()),
            refresh_per_second=2,
            transient=True,
        )
        if console.is_terminal
        else nullcontext(),
        meanwhile(work),
    ):
        yield
    view.look(progress.state())
