"""Follows a job until something is true of it, by asking for it every few seconds.

Asking again is simpler than a watch, and survives an API server that is away for a while.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.job import Job

from tftraining.cluster.cluster import Cluster
from tftraining.cluster.watching import end_of
from tftraining.errors import (
    DeniedError,
    InputError,
    NotFoundError,
    TimedOutError,
    UnreachableError,
)
from tftraining.job import TrainingJob, seen

INTERVAL = 1.5
"""Seconds between two looks."""
PATIENCE = 300.0
"""Seconds for which the cluster may be unreachable."""
_MOST_PAUSE = 30.0

GOALS = {
    "finished": ConditionType.FINISHED,
    "running": ConditionType.RUNNING,
    "ready": ConditionType.PODS_READY,
    "suspended": ConditionType.SUSPENDED,
}
"""What can be waited for."""


def goal_of(name: str) -> ConditionType:
    """Return one of GOALS by its name. Raises InputError."""
    if name not in GOALS:
        raise InputError(f"cannot wait for {name!r}: choose one of {', '.join(GOALS)}")
    return GOALS[name]


def pause_after(interval: float, took: float) -> float:
    """Return the seconds between two looks, of which the last one took so long.

    Pods of a large job have tens of megabytes: whoever waits must not keep the API server busy.
    """
    return max(interval, min(4 * took, _MOST_PAUSE))


def reached(job: Job | None, goal: ConditionType) -> bool:
    """Tell whether a job is where it was waited for, or finished and never will be.

    A condition counts only if it is about the present spec.
    """
    if job is None:
        return False
    if is_true(job.status, ConditionType.FINISHED):
        return True
    # MultiKueue copies the generation of the job in another cluster, which begins anew.
    current = job.dispatched or (job.status.observed_generation or 0) >= job.meta.generation
    return current and is_true(job.status, goal)


@dataclass(slots=True)
class Patience:
    """How long a loop tries again: PATIENCE since the last answer, and not before the first."""

    clock: Callable[[], float] = time.monotonic
    _heard: float | None = field(init=False, default=None)

    def renew(self) -> None:
        """Begin anew, because the cluster has answered."""
        self._heard = self.clock()

    @property
    def is_over(self) -> bool:
        """Whether to give up."""
        return self._heard is None or self.clock() - self._heard > PATIENCE


@dataclass(slots=True)
class Wait:
    """One wait for a job: whoever waits calls `look` after each `pause`."""

    cluster: Cluster
    name: str
    goal: ConditionType
    timeout: float | None = None
    """Seconds, None for no limit."""
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _patience: Patience = field(init=False)
    _last: dict[str, Any] | None = field(init=False, default=None)
    """The job as it was seen last, without its pods."""
    pause: float = field(init=False, default=INTERVAL)
    """Seconds until the next look."""

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._patience = Patience(self.clock)

    def look(self) -> TrainingJob | None:
        """Return the job as it is now, None while the cluster is away.

        Raises NotFoundError if it does not exist, or was deleted before its end, UnreachableError
        if the cluster stays away, DeniedError for who may not read it, or no longer.
        """
        began, self.pause = self.clock(), INTERVAL
        try:
            found = look(self.cluster, self.name)
        except (DeniedError, UnreachableError):
            if self._patience.is_over:
                raise
            return None
        except NotFoundError:
            if self._last is None:
                raise
            return self._end_of(self._last, "was deleted")
        if self._last is not None and self._last["metadata"]["uid"] != found.uid:
            return self._end_of(self._last, "was deleted, and created again, in the meantime")
        self._patience.renew()
        self._last = found.raw
        now = self.clock()
        self.pause = pause_after(INTERVAL, now - began)
        if self.timeout is not None:
            self.pause = min(self.pause, max(0.0, self._began + self.timeout - now))
        return found

    def _end_of(self, last: dict[str, Any], fate: str) -> TrainingJob:
        """Return how a job that is gone has ended. Raises NotFoundError if it had not.

        With ttlSecondsAfterFinished: 0 it is deleted as soon as it has.
        """
        raw = end_of(self.cluster.calls, last)
        ended = seen(raw, [], datetime.now(UTC)) if raw is not None else None
        if ended is None or not ended.finished:
            raise NotFoundError(f"job {self.name} {fate}")
        return ended

    def is_over(self, found: TrainingJob | None) -> bool:
        """Tell whether the job is where it was waited for. Raises TimedOutError."""
        if found is not None and reached(found.job, self.goal):
            return True
        if self.timeout is not None and self.clock() - self._began >= self.timeout:
            raise TimedOutError(
                f"job {self.name} is not {_adjective(self.goal)} after {self.timeout:.0f} s"
                " (--timeout)"
            )
        return False


def follow(
    cluster: Cluster,
    name: str,
    goal: ConditionType,
    show: Callable[[TrainingJob], None],
    *,
    timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> TrainingJob:
    """Show a job again and again until it reaches the goal or finishes; return its last state.

    Raises NotFoundError if it does not exist or is deleted, TimedOutError after `timeout` seconds.
    """
    wait = Wait(cluster, name, goal, timeout, clock)
    while True:
        found = wait.look()
        if found is not None:
            show(found)
        if wait.is_over(found) and found is not None:
            return found
        sleep(wait.pause)


def look(cluster: Cluster, name: str) -> TrainingJob:
    """Read a job and its pods."""
    raw = cluster.job(name)
    return seen(raw, cluster.pods(raw), datetime.now(UTC))


def _adjective(goal: ConditionType) -> str:
    return next(word for word, kind in GOALS.items() if kind is goal)
