"""Runs the program of a suite: its output goes into a log, and it is ended if it takes too long."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.shell import bound
from tools.interrupts import Interrupts

_ROOT = Path(__file__).parents[1]
GRACE_SECONDS = 60.0
"""Before the next signal. The first one is something that pytest ends with its fixtures, which may
have a cluster to delete."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a program may run; `strikes` is called before it is ended."""

    seconds: float
    strikes: Callable[[], None]


def run_and_log(
    command: list[str], log: Path, interrupts: Interrupts, limit: Limit, *, echo: bool
) -> int:
    """Run a command with its output in a file, and on the terminal if wanted; return its code.

    Its output is read to the end also after an interrupt: it cleans up only if it can write.
    """
    log.parent.mkdir(exist_ok=True)
    with (
        # Unbuffered: what was written is still there if this process is killed.
        log.open("wb", buffering=0) as file,
        subprocess.Popen(
            bound(command),
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # What a terminal sends to all would otherwise reach it beside what is handed on.
            start_new_session=True,
        ) as process,
        interrupts.reaching(process),
    ):
        for lines in output(process, limit):
            file.write(lines)
            if echo:
                # The terminal may be gone.
                with contextlib.suppress(OSError):
                    sys.stdout.buffer.write(lines)
                    sys.stdout.buffer.flush()
    return process.returncode


def output(program: subprocess.Popen[bytes], limit: Limit) -> Iterator[bytes]:
    """Yield whole lines of a program's output until it ends, or is ended with its process group."""
    assert program.stdout is not None
    pipe, rest = program.stdout.fileno(), b""
    ending = _signals(program, limit)
    due: float | None = time.monotonic() + limit.seconds
    # Without the last condition, a process of another group that has the pipe would be waited for.
    while due is not None or program.poll() is None:
        if select.select([pipe], [], [], _LOOK_SECONDS if due is None else _until(due))[0]:
            read = os.read(pipe, 65536)
            if not read:
                break
            lines, newline, rest = (rest + read).rpartition(b"\n")
            yield lines + newline
        if due is not None and time.monotonic() >= due:
            due = next(ending)
    yield rest


def _signals(program: subprocess.Popen[bytes], limit: Limit) -> Iterator[float | None]:
    """Send one signal after another; yield when the next one is due, None after the last."""
    limit.strikes()
    for number in _SIGNALS:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, number)
        yield None if number is _SIGNALS[-1] else time.monotonic() + GRACE_SECONDS


def _until(due: float) -> float:
    return min(max(due - time.monotonic(), 0.0), _LOOK_SECONDS)
