"""Which workers the cluster has: one that stays away is left out, and taken back when it is back.

The coordinator takes back a lost worker by itself, but only when no other one is away; so where
the user allows fewer (worker.minReplicas), an absent one must not bind the others.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import UnavailableWorker
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.times import parse, rfc3339

EXCLUDED_AFTER = timedelta(seconds=30)
"""A restart in place or on another node takes less; its image is on most nodes by then."""

REJOINS_AFTER = timedelta(seconds=10)
"""Each return restarts the chief, so a worker that crashes at once must not be taken back."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Who is away, and without whom the next chief is to train."""

    excluded: tuple[int, ...] = ()
    away: tuple[UnavailableWorker, ...] = ()
    wake_at: datetime | None = None


ALL_WORKERS = Membership()


def membership(job: Job, observed: Observed, now: datetime) -> Membership:
    """Return the next membership of a job that is active."""
    least = job.spec.worker.min_replicas if job.spec.worker is not None else None
    if least is None:
        return ALL_WORKERS
    away = _away(job, observed, now)
    absent = {worker.index for worker in away}
    stays_out = {i for i in job.status.excluded_workers if i < job.desired(Role.WORKER)}
    returns = {i: _back_at(observed, i) for i in stays_out - absent}
    stays_out -= {i for i, moment in returns.items() if moment is not None and moment <= now}
    waits = [moment for moment in returns.values() if moment is not None and moment > now]
    if _has_run(job):
        due = {w.index: parse(w.since) + EXCLUDED_AFTER for w in away if w.index not in stays_out}
        waits += [moment for moment in due.values() if moment > now]
        leaving = {index for index, moment in due.items() if moment <= now}
        if job.desired(Role.WORKER) - len(stays_out | leaving) >= least:
            stays_out |= leaving
    return Membership(tuple(sorted(stays_out)), away, min(waits, default=None))


def _away(job: Job, observed: Observed, now: datetime) -> tuple[UnavailableWorker, ...]:
    since = {worker.index: worker.since for worker in job.status.unavailable_workers}
    return tuple(
        UnavailableWorker(index=index, since=since.get(index) or rfc3339(now))
        for index in range(job.desired(Role.WORKER))
        if (pod := observed.get(Role.WORKER, index)) is None or not pod.counts_as_ready
    )


def _back_at(observed: Observed, index: int) -> datetime | None:
    pod = observed.get(Role.WORKER, index)
    return parse(pod.ready_since) + REJOINS_AFTER if pod and pod.ready_since else None


def _has_run(job: Job) -> bool:
    """Tell whether all were there once; until then it is the startup deadline's matter."""
    started = job.status.progress is not None or job.status.attempt > 0
    return started or is_true(job.status, ConditionType.RUNNING)
