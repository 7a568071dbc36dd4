"""Ends a run's processes if tftj itself was killed: a process of its own that waits for just that.

On its standard input it is told each process group as it begins (+PID) and ends (-PID); the input
ends when tftj does, and then it kills the groups that are left.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable


class Guard:
    """The guard as tftj sees it."""

    def __init__(self) -> None:
        # A session of its own: what ends the terminal's processes must not end the guard.
        self._process = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-I", __file__], stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, group: int) -> None:
        """Have a process group ended along with tftj."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Leave a process group alone from now on: it has ended."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Dismiss the guard; it kills what it still watches."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            # Without a guard a run is worth as much as with one.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


def main(lines: Iterable[str]) -> None:
    """Wait until tftj is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        (groups.add if line.startswith("+") else groups.discard)(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.stdin)
