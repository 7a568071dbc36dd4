"""`tftrainer.report`: progress of a script of one's own, for /progress and thus `kubectl get tftj`.

The first call starts what the trainer starts for itself: the HTTP server, and under ParameterServer
the probes of the chief's peers, by which the operator replaces servers that hang. Does not import
TensorFlow.
"""

import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import RLock, current_thread, main_thread
from types import TracebackType
from typing import Any, NoReturn, SupportsFloat, SupportsInt

from tftrainer.config import environment
from tftrainer.config.cluster import Role
from tftrainer.config.environment import Strategy
from tftrainer.peering import peers
from tftrainer.peering.peer_watch import PeerWatch
from tftrainer.runtime import termination
from tftrainer.runtime.exception_text import summary
from tftrainer.runtime.progress import Phase, Progress, SavedCheckpoint, Snapshot
from tftrainer.runtime.rates import Rate

# A handler of SIGTERM may report what it saved, whatever it interrupts.
_LOCK = RLock()
# The status of a job keeps no more of them, and the termination log has little room.
_MOST_METRICS = 32
_LONGEST_NAME = 63


def report(
    step: SupportsInt,
    *,
    total_steps: SupportsInt | None = None,
    loss: SupportsFloat | None = None,
    metrics: Mapping[str, SupportsFloat] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resumed_step: SupportsInt | None = None,
    next_seconds: SupportsFloat | None = None,
) -> None:
    """Report how far a script of one's own is; called by its chief or evaluator, in any thread.

    What a call leaves out keeps its value. Other tasks, and scripts outside a job, may call it as
    well: it does nothing there. Raises TypeError or ValueError, in every task, if a value is not
    what is described here.

    `step` is the number of steps that all workers together have completed. Report 0 before the
    strategy is built: the job then says which servers it waits for.

    `total_steps` is the number of steps after which the training is complete. The report of that
    step is kept even if the process ends right after it. Who stops early reports the number of
    steps that were made as both.

    `loss` and `metrics` are numbers, at most 32.

    `checkpoint` is the path of a checkpoint that was just saved, at this step.

    `resumed_step` is the step of the checkpoint that this process resumed from.

    `next_seconds` is the time in which the next step is reported; by default, as long as passed
    between the last two. Only after that time the job counts as making no step (`Stalled`,
    spec.runPolicy.stallTimeoutSeconds). Give it before a long epoch or validation.
    """
    changes: dict[str, Any] = {"step": _whole("step", step)}
    for name, value in {"total_steps": total_steps, "resumed_step": resumed_step}.items():
        if value is not None:
            changes[name] = _whole(name, value)
    numbers = _numbers(metrics or {}) | ({} if loss is None else _numbers({"loss": loss}))
    if checkpoint is not None:
        path = _path(checkpoint)
        changes["last_checkpoint"] = SavedCheckpoint(changes["step"], path, datetime.now(UTC))
    seconds = None if next_seconds is None else _seconds(next_seconds)
    with _LOCK:
        if (reporter := _reporter_of_this_process()) is not None:
            after = reporter.report(changes, numbers, seconds, time.monotonic())
            if after.phase is Phase.DONE:
                _keep(reporter.progress)


class Reporter:
    """Makes snapshots of what a script reports."""

    def __init__(self, role: Role, attempt: int) -> None:
        self.progress = Progress(Snapshot(role=role, attempt=attempt))
        self._rate: Rate | None = None
        self._newest_at = 0.0
        self._due_at = 0.0
        """When the next step is due, as far as is known."""

    def report(
        self,
        changes: Mapping[str, Any],
        metrics: Mapping[str, float],
        next_seconds: float | None,
        now: float,
    ) -> Snapshot:
        """Replace these fields of the snapshot; `now` is in monotonic seconds.

        Raises ValueError if there are too many metrics.
        """
        before, step = self.progress.snapshot, changes["step"]
        known = {**before.metrics, **metrics}
        if len(known) > _MOST_METRICS:
            raise ValueError(f"{len(known)} metrics are reported: choose at most {_MOST_METRICS}.")
        is_first = self._rate is None
        if is_first or step < before.step:
            self._newest_at = now
        # What an earlier process made is no speed of this one.
        is_restored = changes.get("resumed_step") not in (None, before.resumed_step)
        if self._rate is None or step < before.step or is_restored:
            self._rate = Rate(now, step)
        if is_first or step != before.step:
            self._due_at = now + (now - self._newest_at)
            self._newest_at = now
        if next_seconds is not None:
            self._due_at = now + next_seconds
        self._rate.add(now, step)
        phase = _phase(replace(before, **changes), is_first=is_first)
        # While it waits for servers no step is due, unless it says when.
        is_due = phase is not Phase.WAITING or next_seconds is not None
        return self.progress.update(
            **changes,
            metrics=known,
            steps_per_second=self._rate.recent,
            stepped_at=self._due_at if is_due else None,
            phase=phase,
        )


def _phase(now: Snapshot, *, is_first: bool) -> Phase:
    if now.total_steps is not None and now.step >= now.total_steps:
        return Phase.DONE
    if now.role is Role.EVALUATOR:
        return Phase.EVALUATING
    return Phase.WAITING if is_first and now.step == 0 else Phase.TRAINING


@cache
def _reporter_of_this_process() -> Reporter | None:
    """Return what serves this process's progress, started now; None where nobody asks for it."""
    env = environment.read(os.environ)
    if not env.progress_port:
        return None
    # Imported here: workers and ps serve no progress, and it costs them time.
    from tftrainer.runtime import http_server  # noqa: PLC0415

    reporter = Reporter(env.task.role, env.attempt)
    http_server.serve(env.progress_port, reporter.progress, lambda: True)
    coordinates = env.task.role is Role.CHIEF and env.strategy is Strategy.PARAMETER_SERVER
    if env.cluster is not None and coordinates:
        PeerWatch(env.cluster.peers, reporter.progress, peers.StatusProbe()).start()
    return reporter


def _keep(progress: Progress) -> None:
    """Write the termination log, which the operator reads when the process has ended well."""
    log = environment.termination_log(os.environ)
    termination.write_document(log, progress.document())
    _replace_by_cause_of_failure(log)


@cache
def _replace_by_cause_of_failure(log: Path) -> None:
    """Write over what was kept why the process ends, if it does not end well.

    An exception goes through a hook, and sys.exit through none.
    """
    hook, leave = sys.excepthook, sys.exit

    def write(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        termination.write_cause(log, summary(error))
        hook(kind, error, trace)

    def end(code: str | int | None = None) -> NoReturn:
        # In another thread it ends that alone.
        if code not in (None, 0) and current_thread() is main_thread():
            # Where nothing is written, the kubelet takes the end of the log.
            termination.write_cause(log, "" if isinstance(code, int) else str(code))
        leave(code)

    sys.excepthook, sys.exit = write, end


def _whole(name: str, value: SupportsInt) -> int:
    try:
        number = int(value)
    except OverflowError:
        number = -1
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is a {type(value).__name__}: give a whole number, outside of tf.function."
        ) from error
    if number < 0 or number != value:
        raise ValueError(f"{name} is {value}: give a whole number, 0 or more.")
    return number


def _seconds(value: SupportsFloat) -> float:
    try:
        # As Python's own: JSON knows no numbers of NumPy.
        seconds = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"next_seconds is a {type(value).__name__}: give a positive number of seconds."
        ) from error
    if not 0 < seconds < math.inf:
        raise ValueError(f"next_seconds is {value}: give a positive number of seconds.")
    return seconds


def _path(checkpoint: str | os.PathLike[str]) -> str:
    if not isinstance(checkpoint, str | os.PathLike):
        raise TypeError(
            f"checkpoint is a {type(checkpoint).__name__}: give the path that was saved, as "
            "CheckpointManager.save() returns it."
        )
    return os.fspath(checkpoint)


def _numbers(metrics: Mapping[str, SupportsFloat]) -> dict[str, float]:
    if not isinstance(metrics, Mapping):
        raise TypeError(
            f"metrics is a {type(metrics).__name__}: give a dict of numbers by their names."
        )
    found = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            raise ValueError(
                f"a metric is called {name!r}: give a name of 1 to {_LONGEST_NAME} characters."
            )
        try:
            found[name] = float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"the metric {name} is a {type(value).__name__}: give a number, outside of "
                "tf.function; fetch() what a ClusterCoordinator has scheduled."
            ) from error
    return found
