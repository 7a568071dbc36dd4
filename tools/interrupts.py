"""Has a run end with its clean-up, however it is asked to end; the suites and the demo call it.

Ctrl-C is SIGINT, CI ends a run with SIGTERM, and a terminal that is closed sends SIGHUP.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Hands an interrupt on to the programs that run, which clean up and end by themselves."""

    def __init__(self) -> None:
        self.interrupted = False
        self._running: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def reaching(self, program: subprocess.Popen[bytes]) -> Iterator[None]:
        """Hand interrupts on to a program, in a process group of its own, during the block."""
        self._running.append(program)
        try:
            if self.interrupted:
                _interrupt(program)
            yield
        finally:
            self._running.remove(program)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal: the first one, and each Ctrl-C, which may be an impatient user's."""
        if self.interrupted and number != signal.SIGINT:
            return
        self.interrupted = True
        if not self._running:
            raise KeyboardInterrupt
        for program in [*self._running]:
            _interrupt(program)


@contextmanager
def raised() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise KeyboardInterrupt in the block, as Ctrl-C does, but only once.

    A second one would end the clean-up that follows.
    """
    asked = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked or number == signal.SIGINT:
            asked = True
            raise KeyboardInterrupt

    with handled(handle):
        yield


def _interrupt(program: subprocess.Popen[bytes]) -> None:
    # Only SIGINT is something that pytest ends with its fixtures.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGINT)


@contextmanager
def handled(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have the signals that ask this process to end handled for the time of the block."""
    asking = [signal.SIGINT, signal.SIGTERM]
    # nohup has this one ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        asking.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in asking}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
