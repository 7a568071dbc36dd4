"""The gang: the pods without which training cannot begin, placed all at once or not at all.

A gang is formed when a job starts, and for each attempt where all pods begin anew. Until each of
its pods has a node, the job has no other pods, and all of them carry the gang's group. Later pods
are scheduled one by one: a group counts its living pods, so a single one could wait for ever.
core/decide.py asks what the next gang is; core/schedulers knows how a scheduler is told of it.
"""

import hashlib
from dataclasses import replace
from datetime import datetime, timedelta

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Gang, Scheduling
from tftraining_operator.api.status import GangStatus
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.placement import scheduler_names
from tftraining_operator.core.roles import traits
from tftraining_operator.core.schedulers import SCHEDULERS
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.schedulers.scheduler import Carried
from tftraining_operator.core.times import parse, rfc3339

UNEXPLAINED = timedelta(seconds=10)
"""A scheduler that says nothing for so long is said to say nothing."""

_BY_KUBERNETES = {"default-scheduler"}


class SchedulerUnavailableError(Exception):
    """The job asks for a scheduler that the cluster does not have; the text is for the user."""


def next_gang(job: Job, observed: Observed, offer: Offer, now: datetime) -> GangStatus | None:
    """Return the gang of an active job, None for one whose pods are scheduled one by one.

    Raises SchedulerUnavailableError.
    """
    known, size = job.status.gang, len(members(job))
    if known is None:
        # Pods that exist carry no group, and would have to go to get one.
        if job.status.start_time is not None:
            return None
        scheduler = _chosen(job, offer)
        return _formed(job, scheduler, size, rfc3339(now)) if scheduler is not None else None
    if is_waiting(known) and known.members != size:
        return _formed(job, known.scheduler, size, known.waiting_since)
    if known.attempt != job.status.attempt and _begins_anew(job):
        return _formed(job, known.scheduler, size, rfc3339(now))
    if is_waiting(known) and _is_placed(job, known, observed):
        return known.model_copy(update={"scheduled_time": rfc3339(now)})
    return known


def members(job: Job) -> list[tuple[Role, int]]:
    """Return the tasks that training needs to begin, in the order in which pods are created."""
    return [
        (role, index)
        for role in Role
        if traits(job.spec.strategy, role).in_cluster
        for index in range(_needed(job, role))
    ]


def is_waiting(gang: GangStatus | None) -> bool:
    """Tell whether there is a gang that still waits for its nodes."""
    return gang is not None and gang.scheduled_time is None


def is_in_the_way(job: Job, gang: GangStatus | None, pod: Pod) -> bool:
    """Tell whether a pod of the cluster has no part in a gang that waits."""
    if gang is None or not is_waiting(gang) or not traits(job.spec.strategy, pod.role).in_cluster:
        return False
    return pod.group != gang.group or (pod.role, pod.index) not in members(job)


def carried(job: Job, gang: GangStatus | None, role: Role, index: int) -> Carried:
    """Return what a pod that is created now carries for its scheduler."""
    if gang is None:
        return Carried()
    scheduler = SCHEDULERS[gang.scheduler]
    if is_waiting(gang) and (role, index) in members(job):
        found = scheduler.member(gang.group)
        own = {keys.ANNOTATION_GANG: gang.group}
        return replace(found, annotations={**found.annotations, **own})
    return scheduler.single(scheduling(job).queue)


def scheduling(job: Job) -> Scheduling:
    """Return spec.scheduling, also of a job that has none."""
    return job.spec.scheduling or Scheduling()


def explained_by(gang: GangStatus | None) -> datetime | None:
    """Return when a gang has waited so long that the job says so, whatever its scheduler says."""
    if gang is None or not is_waiting(gang):
        return None
    return parse(gang.waiting_since) + UNEXPLAINED


def _needed(job: Job, role: Role) -> int:
    wanted = job.desired(role)
    if role is not Role.WORKER or not traits(job.spec.strategy, role).tolerates_absence:
        return wanted
    least = job.spec.worker.min_replicas if job.spec.worker is not None else None
    return wanted if least is None else min(least, wanted)


def _chosen(job: Job, offer: Offer) -> Gang | None:
    asked = scheduling(job).gang or Gang.AUTO
    if asked is Gang.NONE:
        return None
    if asked is Gang.AUTO:
        # Another scheduler may know nothing of a PodGroup, and a gang of one is none.
        fits = scheduler_names(job) <= _BY_KUBERNETES and len(members(job)) > 1
        return Gang.IN_TREE if fits and Gang.IN_TREE in offer.usable else None
    if asked not in offer.usable:
        raise SchedulerUnavailableError(offer.problem(asked))
    return asked


def _begins_anew(job: Job) -> bool:
    """Tell whether a new attempt replaces every pod of the cluster."""
    return all(traits(job.spec.strategy, role).drives_attempt for role, _ in members(job))


def _is_placed(job: Job, gang: GangStatus, observed: Observed) -> bool:
    pods = (observed.get(role, index) for role, index in members(job))
    return all(
        pod is not None and pod.group == gang.group and pod.node is not None and not pod.deleting
        for pod in pods
    )


def _formed(job: Job, scheduler: Gang, size: int, since: str) -> GangStatus:
    # All that a group says is in its name, with the job's identity: a group is never changed, and
    # one of an earlier job of this name is not in the way.
    identity = hashlib.sha256(job.uid.encode()).hexdigest()[:5]
    return GangStatus(
        scheduler=scheduler,
        group=f"{job.name}-{identity}-{job.status.attempt}-{size}",
        attempt=job.status.attempt,
        members=size,
        waiting_since=since,
    )
