"""Notes the signals by which a user ends a command, so that it can end in order."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from tftraining_operator.cli.errors import ExitCode

_CODES = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
    signal.SIGHUP: ExitCode.TERMINATED,
}


class Asked:
    """How often, and by which signal first, the command was asked to end."""

    def __init__(self) -> None:
        self.times = 0
        self.code: ExitCode | None = None
        """The exit code for it; None before."""

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        self.code = self.code or _CODES[signal.Signals(number)]
        self.times += 1


@contextlib.contextmanager
def noted() -> Iterator[Asked]:
    """Note signals instead of ending by them, until the block ends."""
    asked = Asked()
    before = {number: signal.signal(number, asked.note) for number in _CODES}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
