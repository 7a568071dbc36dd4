"""Follows a job until something is true of it, by asking for it every few seconds.

Asking again is simpler than a watch, and survives an API server that is away for a while.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.job import InvalidJobError, Job, parse_job

from tftraining.cluster.cluster import Cluster
from tftraining.errors import (
    ExitCode,
    NotFoundError,
    TimedOutError,
    UnreachableError,
)

_Object = dict[str, Any]

_INTERVAL = 1.5
_PATIENCE = 300.0
"""Seconds for which the cluster may be unreachable."""

GOALS = {
    "finished": ConditionType.FINISHED,
    "running": ConditionType.RUNNING,
    "ready": ConditionType.PODS_READY,
    "suspended": ConditionType.SUSPENDED,
}
"""What can be waited for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A job and its pods at one moment."""

    raw: _Object
    job: Job | None
    """None if the operator refuses what is stored."""
    pods: list[_Object]
    now: datetime


def exit_code(job: Job | None) -> ExitCode:
    """Return 0 unless the job failed."""
    failed = job is not None and is_true(job.status, ConditionType.FAILED)
    return ExitCode.FAILED if failed else ExitCode.SUCCEEDED


def reached(job: Job | None, goal: ConditionType) -> bool:
    """Tell whether a job is where it was waited for, or finished and never will be.

    A condition counts only if it is about the present spec.
    """
    if job is None:
        return False
    if is_true(job.status, ConditionType.FINISHED):
        return True
    current = (job.status.observed_generation or 0) >= job.meta.generation
    return current and is_true(job.status, goal)


def follow(
    cluster: Cluster,
    name: str,
    goal: ConditionType,
    show: Callable[[Seen], None],
    *,
    timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Seen:
    """Show a job again and again until it reaches the goal or finishes; return its last state.

    Raises NotFoundError if it does not exist or is deleted, TimedOutError after `timeout` seconds.
    """
    began, heard, uid = clock(), clock(), None
    while True:
        try:
            seen = look(cluster, name)
        except UnreachableError:
            if clock() - heard > _PATIENCE or uid is None:
                raise
        else:
            if uid not in (None, seen.raw["metadata"]["uid"]):
                raise NotFoundError(f"job {name} was deleted, and created again, in the meantime")
            heard, uid = clock(), seen.raw["metadata"]["uid"]
            show(seen)
            if reached(seen.job, goal):
                return seen
        if timeout is not None and clock() - began >= timeout:
            raise TimedOutError(
                f"job {name} is not {_adjective(goal)} after {timeout:.0f} s (--timeout)"
            )
        sleep(_INTERVAL)


def look(cluster: Cluster, name: str) -> Seen:
    """Read a job and its pods."""
    raw = cluster.job(name)
    now = datetime.now(UTC)
    try:
        job = parse_job(raw, now)
    except InvalidJobError:
        job = None
    return Seen(raw, job, cluster.pods(raw), now)


def _adjective(goal: ConditionType) -> str:
    return next(word for word, kind in GOALS.items() if kind is goal)
