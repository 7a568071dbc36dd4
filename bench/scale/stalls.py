"""Runs the operator and notes the longest turn of its event loop.

    python -m bench.scale.stalls FILE [unfair] [unasked]

In a turn the loop runs all callbacks that are ready, and nothing else can happen meanwhile. In CPU
seconds of the loop's thread, to within ten milliseconds: for how long others had the processor is
no matter of the operator. A line of FILE is a time (monotonic) and the longest turn of the half
second before it. `unfair`: without what keeps a namespace or a job from taking all passes and
calls, to see what that is good for. `unasked`: without asking pods for their progress.
"""

import asyncio
import sys
import threading
import time
from pathlib import Path

from tftraining_operator.__main__ import main
from tftraining_operator.controller import runtime
from tftraining_operator.controller.poller import ProgressPoller
from tftraining_operator.reconcile import limits
from tftraining_operator.reconcile.memory import Memory

UNFAIR, UNASKED = "unfair", "unasked"
_PERIOD_SECONDS = 0.5
_EXACT_SECONDS = 0.01
"""Short turns are taken together: to ask for a thread's CPU time is a system call, and to make one
in every millisecond was a twelfth of what the operator used."""


class Stalls:
    """The longest turn of each period, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._longest = 0.0
        self._looked = self._used = 0.0

    def install(self) -> None:
        """Time every turn of asyncio's loops from now on, and write."""
        turn = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined] # noqa: SLF001

        def timed(loop: asyncio.BaseEventLoop) -> None:
            turn(loop)
            now = time.perf_counter()
            if now - self._looked < _EXACT_SECONDS:
                return
            used = time.thread_time()
            self._longest = max(self._longest, used - self._used)
            self._looked, self._used = now, used

        asyncio.BaseEventLoop._run_once = timed  # type: ignore[attr-defined] # noqa: SLF001
        self._used = time.thread_time()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        with self._file.open("a", buffering=1) as out:
            while True:
                time.sleep(_PERIOD_SECONDS)
                longest, self._longest = self._longest, 0.0
                out.write(f"{time.monotonic():.3f} {longest:.6f}\n")


def longest(file: Path, since: float) -> float:
    """Return the longest turn (s) that was noted after `since` (monotonic)."""
    lines = (line.split() for line in file.read_text().splitlines())
    return max((float(each[1]) for each in lines if float(each[0]) > since), default=0.0)


def make_unfair() -> None:
    """Let all keys be of one group, and all calls of one limit."""
    runtime._namespace = lambda _key: None  # type: ignore[assignment,return-value] # noqa: SLF001
    limits.NAMESPACE = limits.JOB = limits.ALL


def ask_nobody() -> None:
    """Let no pod be asked for its progress, nor any job be told that its chief answers nothing."""
    ProgressPoller.watch = lambda *_: None  # type: ignore[method-assign]
    Memory.ask = lambda *_: None  # type: ignore[method-assign]


if __name__ == "__main__":
    if UNFAIR in sys.argv[2:]:
        make_unfair()
    if UNASKED in sys.argv[2:]:
        ask_nobody()
    Stalls(Path(sys.argv[1])).install()
    sys.exit(main())
