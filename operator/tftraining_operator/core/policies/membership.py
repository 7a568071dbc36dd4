"""Which workers the cluster has: how many, and without whom it continues for now.

The coordinator takes back a lost worker by itself, but only while no other one is unavailable; so
where the user allows fewer (worker.minReplicas), an unavailable one must not block the others. And
a cluster grows only when its new workers are ready: until then the present chief trains on. A
member that cannot become ready alone has to have started, with its image and volumes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import UnavailableWorker
from tftraining_operator.core.history import has_run
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import join_names
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.roles import traits
from tftraining_operator.core.text import counted
from tftraining_operator.core.times import parse, rfc3339

EXCLUDED_AFTER = timedelta(seconds=30)
"""A restart in place or on another node takes less; its image is on most nodes by then."""

REJOINS_AFTER = timedelta(seconds=10)
"""Each return restarts the chief, so a worker that crashes at once must not be taken back."""

JOINS_AFTER = timedelta(seconds=20)
"""Longer than the 15 s of a HorizontalPodAutoscaler's step, so that several steps cost one restart
of the chief. It is also how long a new member of a gang has to run before it counts as started."""

_NOT_EXPECTED = "Unexpected task registered"
"""What TensorFlow's coordination service, which is the chief's, tells a member that its cluster
does not have. The member exits with it as soon as it has started; it is no crash of its own."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The workers of the next chief's cluster."""

    size: int
    """Number of workers that the cluster is formed for."""
    excluded: tuple[int, ...] = ()
    """Indexes below `size` that it continues without."""
    unavailable: tuple[UnavailableWorker, ...] = ()
    due: datetime | None = None
    """When to look again though nothing changes."""

    def change(self, job: Job) -> tuple[Reason, str] | None:
        """Return why the chief has to be restarted for it, None if it has not."""
        before, known = job.cluster_size(Role.WORKER), set(job.status.excluded_workers)
        if self.size != before:
            return Reason.SCALED, f"scaled from {before} to {counted(self.size, 'worker')}"
        if left := sorted(set(self.excluded) - known):
            names = join_names([f"worker-{i}" for i in left])
            return Reason.WORKER_EXCLUDED, f"continuing without {names} (unavailable)"
        if back := sorted(known - set(self.excluded)):
            names = join_names([f"worker-{i}" for i in back])
            return Reason.WORKER_REJOINED, f"continuing with {names} again"
        return None


def present(job: Job) -> Membership:
    """Return the membership as it is stored."""
    return Membership(
        job.cluster_size(Role.WORKER),
        tuple(job.status.excluded_workers),
        tuple(job.status.unavailable_workers),
    )


def membership(job: Job, observed: Observed, now: datetime) -> Membership:
    """Return the next membership of a job that is active."""
    size, joins = _size(job, observed, now)
    if observed.get(Role.CHIEF) is None and job.status.chief_uid is None:
        # No chief has been told of this cluster yet, so the change costs nothing; but a training
        # that ran must not wait for a worker that may never start.
        if joins is not None or not has_run(job.status):
            size = job.desired(Role.WORKER)
        joins = None
    if (least := job.least_workers) is None:
        return Membership(size, due=joins)
    missing = _unavailable(job, observed, size, now)
    absent = {worker.index for worker in missing}
    excluded = {i for i in job.status.excluded_workers if i < size}
    returns = {i: _back_at(observed, i) for i in excluded - absent}
    excluded -= {i for i, moment in returns.items() if moment is not None and moment <= now}
    waits = [moment for moment in returns.values() if moment is not None and moment > now]
    due = {
        worker.index: moment
        for worker in missing
        if worker.index not in excluded
        and (moment := _leaves_at(job, observed, worker)) is not None
    }
    waits += [moment for moment in due.values() if moment > now]
    leaving = {index for index, moment in due.items() if moment <= now}
    if leaving and size - len(excluded | leaving) >= least:
        excluded |= leaving
    while excluded and size - len(excluded) < least:
        # The cluster became smaller, so it has to wait for one of them.
        excluded.remove(min(excluded))
    waits += [joins] if joins is not None else []
    return Membership(size, tuple(sorted(excluded)), missing, min(waits, default=None))


def _size(job: Job, observed: Observed, now: datetime) -> tuple[int, datetime | None]:
    """Return the cluster's next size, and when it grows if all stays as it is."""
    before, wanted = _known_size(job, observed), job.desired(Role.WORKER)
    if wanted <= before:
        return wanted, None
    joining = [observed.get(Role.WORKER, index) for index in range(before, wanted)]
    due = [_joins_at(job, pod, now) for pod in joining]
    if any(moment is None for moment in due):
        return before, None
    last = max(moment for moment in due if moment is not None)
    return (wanted, None) if last <= now else (before, last)


def _known_size(job: Job, observed: Observed) -> int:
    """Return the present cluster's size; where no status has it yet, the chief's pod does."""
    chief = observed.get(Role.CHIEF)
    if job.status.cluster_workers is None and chief is not None and chief.workers:
        excluded = job.status.excluded_workers
        members = chief.workers.split(",")
        if members[-1].isdecimal() and (excluded or len(members) > 1):
            return max([int(members[-1]), *excluded]) + 1
        if members[-1].isdecimal():
            return int(members[-1])
    return job.cluster_size(Role.WORKER)


def _joins_at(job: Job, pod: Pod | None, now: datetime) -> datetime | None:
    if pod is None or pod.deleting:
        return None
    if traits(job.spec.strategy, Role.WORKER).drives_attempt:
        # A member of a gang is ready only together with the gang: that it has started must do.
        if pod.failed:
            return now if is_not_expected(job, pod) else None
        return parse(pod.trains_since) + JOINS_AFTER if pod.trains_since else None
    return parse(pod.ready_since) + JOINS_AFTER if pod.ready and pod.ready_since else None


def is_not_expected(job: Job, pod: Pod) -> bool:
    """Tell whether a new member of a gang has ended only because the chief does not know it yet."""
    is_new = traits(job.spec.strategy, pod.role).drives_attempt and (
        pod.index >= job.cluster_size(pod.role)
    )
    return is_new and pod.failed and _NOT_EXPECTED in pod.termination_message


def _unavailable(
    job: Job, observed: Observed, size: int, now: datetime
) -> tuple[UnavailableWorker, ...]:
    since = {worker.index: worker.since for worker in job.status.unavailable_workers}
    return tuple(
        UnavailableWorker(index=index, since=since.get(index) or rfc3339(now))
        for index in range(size)
        if (pod := observed.get(Role.WORKER, index)) is None or not pod.counts_as_ready
    )


def _leaves_at(job: Job, observed: Observed, worker: UnavailableWorker) -> datetime | None:
    """Return when the cluster continues without a worker, None if it waits for it."""
    since = parse(worker.since)
    if has_run(job.status):
        return since + EXCLUDED_AFTER
    gang = job.status.gang
    if gang is None or gang.scheduled_time is None:
        return None
    # The gang has its place, and training can begin without those for whom there is no node.
    pod = observed.get(Role.WORKER, worker.index)
    is_placed = pod is not None and pod.node is not None
    return None if is_placed else max(since, parse(gang.scheduled_time)) + EXCLUDED_AFTER


def _back_at(observed: Observed, index: int) -> datetime | None:
    pod = observed.get(Role.WORKER, index)
    return parse(pod.ready_since) + REJOINS_AFTER if pod and pod.ready_since else None
