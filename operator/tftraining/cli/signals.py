"""Counts the signals by which a user stops a command, so that it can shut down cleanly."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from tftraining.errors import ExitCode

_CODES = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
    signal.SIGHUP: ExitCode.TERMINATED,
}


class StopRequests:
    """How often the user asked the command to stop, and by which signal first."""

    def __init__(self) -> None:
        self.count = 0
        self.exit_code: ExitCode | None = None
        """The exit code of a command that was stopped; None if it was not."""

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        if number == signal.SIGHUP and self.count:
            # When a terminal is closed, the kernel sends it and bash does; nobody asks twice.
            return
        self.exit_code = self.exit_code or _CODES[signal.Signals(number)]
        self.count += 1


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """Count signals instead of exiting on them, until the block ends."""
    requests = StopRequests()
    counted = set(_CODES)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # By nohup: the command is to outlive its terminal.
        counted.remove(signal.SIGHUP)
    before = {number: signal.signal(number, requests.handle) for number in counted}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
