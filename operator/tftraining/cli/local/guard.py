"""Kills a run's processes if tftj itself is killed: a separate process that waits for that.

tftj writes each process group to the guard's standard input as it starts (+PID) and ends (-PID).
The input is closed when tftj exits; the guard then kills the groups that are left.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable


class Guard:
    """Starts the guard and talks to it."""

    def __init__(self) -> None:
        # In its own session: a signal to the processes of the terminal must not reach the guard.
        self._process = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-I", __file__], stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, group: int) -> None:
        """Kill this process group if tftj is killed."""
        self._send(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Stop watching a process group that has ended."""
        self._send(f"-{group}\n")

    def close(self) -> None:
        """End the guard; it kills the groups that it still watches."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        if self._process.stdin is not None:
            # The run does not depend on its guard.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


def main(lines: Iterable[str]) -> None:
    """Read groups until tftj exits, then kill those that are left."""
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
