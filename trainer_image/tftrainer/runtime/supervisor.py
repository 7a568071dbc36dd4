"""The main thread of a task that trains or evaluates: signals, watchdog and exit.

The work runs in a thread of its own, because TensorFlow blocks in C++ calls for as long as it
likes, and Python runs signal handlers in the main thread only. The process always ends through
os._exit: TensorFlow's own threads would otherwise keep it. Called by __main__; does not import
TensorFlow.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tftrainer.errors import TerminatedError, TrainerError
from tftrainer.exit_codes import ExitCode
from tftrainer.runtime import termination
from tftrainer.runtime.exception_text import summary
from tftrainer.runtime.outages import is_outage
from tftrainer.runtime.progress import Activity, Progress
from tftrainer.runtime.watchdog import Watchdog

_LOG = logging.getLogger(__name__)
_TICK_SECONDS = 0.2
_ALIVE_SECONDS = 30.0
_AFTER_SAVING = (Activity.VALIDATION, Activity.EXPORT)
"""What is done with a checkpoint that is saved."""


class Run:
    """State shared by the working thread and the main thread."""

    def __init__(self, progress: Progress, watchdog: Watchdog) -> None:
        self.progress = progress
        self.watchdog = watchdog
        # Set by SIGTERM; the work looks at it between two calls of TensorFlow.
        self.stop = threading.Event()
        # True while there is something worth saving: SIGTERM then waits for it.
        self.worth_saving = False
        # Called before the process exits, whatever the reason; each takes some seconds at most.
        self.before_exit: list[Callable[[], None]] = []
        # What must outlive the work. TensorFlow tells every server of a function that is collected,
        # and holds the interpreter lock meanwhile: one server that hangs would delay the end. A
        # strategy of several members waits for its thread, which asks the others for their health.
        # An iterator cancels what its datasets compute, and each may wait for the other for ever.
        self.kept_alive: list[object] = []
        self._beat = time.monotonic()

    def beat(self) -> None:
        """Record that the main thread is running."""
        self._beat = time.monotonic()

    def is_alive(self) -> bool:
        """Whether the main thread ran recently; this is what /healthz reports."""
        return time.monotonic() - self._beat < _ALIVE_SECONDS

    @contextmanager
    def busy(self, activity: Activity) -> Iterator[None]:
        """Expect no steps in this block: it is no stall, however long a callback takes."""
        began, before = time.monotonic(), self.progress.snapshot
        if activity.has_a_limit:
            self.watchdog.allow_more(began)
        else:
            self.watchdog.pause(began)
        self.progress.update(activity=activity, active_since=began)
        try:
            yield
        finally:
            now = time.monotonic()
            self.progress.update(
                activity=before.activity,
                active_since=before.active_since + now - began,
                stepped_at=before.stepped_at and before.stepped_at + now - began,
            )
            self.watchdog.expect(now)

    def raise_if_stopped(self) -> None:
        """End the work if SIGTERM came."""
        if self.stop.is_set():
            raise TerminatedError("terminated by SIGTERM before training was complete.")


def supervise(work: Callable[[], None], run: Run, *, grace_seconds: float, log: Path) -> NoReturn:
    """Run the work to its end, or end it; never returns."""
    outcome: list[tuple[ExitCode, str | None]] = []
    finished = threading.Event()

    def body() -> None:
        outcome.append(_outcome(work, run))
        finished.set()

    threading.Thread(target=body, name="work", daemon=True).start()
    stop_seen: float | None = None
    while True:
        # Each time anew: TensorFlow's coordination service takes SIGTERM for itself when it starts.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: run.stop.set())
        if finished.wait(_TICK_SECONDS):
            break
        run.beat()
        now = time.monotonic()
        if run.stop.is_set():
            stop_seen = stop_seen or now
            if not run.worth_saving or now - stop_seen > grace_seconds:
                outcome.append((ExitCode.TERMINATED, _unfinished(run)))
                break
        elif verdict := run.watchdog.verdict(now, run.progress.snapshot.unreachable):
            outcome.append((verdict.code, verdict.cause))
            break
    code, cause = outcome[0]
    if cause is None:
        termination.write_document(log, run.progress.document())
    for end in run.before_exit:
        end()
    leave(code, cause, log)


def end_on_sigterm() -> None:
    """End at once with 0 on SIGTERM: a server that is still starting has nothing to save.

    Without a handler, PID 1 of a container ignores the signal and sits out its grace period.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(ExitCode.SUCCEEDED))


def leave(code: ExitCode, cause: str | None, log: Path) -> NoReturn:
    """Exit at once, whatever threads there are; log the cause and write the termination message."""
    if cause is not None:
        termination.write_cause(log, cause)
        level = logging.WARNING if code is ExitCode.TERMINATED else logging.ERROR
        _LOG.log(level, "%s (exit code %d, %s)", cause, code, code.name)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _outcome(work: Callable[[], None], run: Run) -> tuple[ExitCode, str | None]:
    try:
        work()
    except TrainerError as error:
        run.kept_alive.append(error)
        return error.code, str(error)
    except BaseException as error:  # noqa: BLE001 -- whatever it is, the process ends with it
        run.kept_alive.append(error)
        _LOG.exception("training failed")
        # One that the user's code did not cause is worth any number of attempts.
        outage = is_outage(error)
        return (ExitCode.PEERS_UNAVAILABLE if outage else ExitCode.FAILED), summary(error)
    return ExitCode.SUCCEEDED, None


def _unfinished(run: Run) -> str:
    if not run.worth_saving:
        return "terminated by SIGTERM before there was anything to save."
    snapshot = run.progress.snapshot
    activity, saved = snapshot.activity, snapshot.last_checkpoint
    # At the end of training, callbacks too.
    is_saved = saved is not None and saved.step >= snapshot.step
    if activity in _AFTER_SAVING or (activity is Activity.CALLBACKS and is_saved):
        return (
            f"terminated by SIGTERM in the {activity}, which did not end within --grace-seconds; "
            "the checkpoint is saved."
        )
    return "terminated by SIGTERM; the checkpoint was not saved within --grace-seconds."
