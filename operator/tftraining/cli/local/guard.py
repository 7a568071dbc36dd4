"""Cleans up after a run if tftj itself is killed: a separate process that waits for that.

tftj writes each process group to the guard's standard input as it starts (+PID) and ends (-PID),
and says when it ends the guard itself. The input is closed when tftj exits; the guard then kills
the groups that are left, and removes the run's scratch folder if tftj did not end it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_END = "end\n"


class Guard:
    """Starts the guard and talks to it."""

    def __init__(self, scratch: Path) -> None:
        # In its own session: a signal to the processes of the terminal must not reach the guard.
        self._process = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-I", __file__, scratch],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """Kill this process group if tftj is killed."""
        self._send(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Stop watching a process group that has ended."""
        self._send(f"-{group}\n")

    def close(self) -> None:
        """End the guard; it kills the groups that it still watches."""
        self._send(_END)
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


def main(lines: Iterable[str], scratch: str) -> None:
    """Read groups until tftj exits, then remove what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    was_killed = True
    for line in lines:
        if line == _END:
            was_killed = False
            break
        group = int(line[1:])
        (groups.add if line.startswith("+") else groups.discard)(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    if was_killed:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(sys.stdin, sys.argv[1])
