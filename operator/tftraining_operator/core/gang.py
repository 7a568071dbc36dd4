"""The gang: the pods without which training cannot begin, placed all at once or not at all.

A gang is formed when a job starts, and for each attempt where all pods begin anew. Until each of
its pods has a node, the job has no other pods, and all of them carry the gang's group. Later pods
are scheduled one by one: a group counts its living pods, so a single one could wait for ever. Where
the scheduler wants a group for them too, it is another one.
core/decide.py asks what the next gang is; core/schedulers knows how a scheduler is told of it.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Gang, Scheduling
from tftraining_operator.api.status import GangStatus
from tftraining_operator.core.history import has_run
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import identity
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.placement import priority_classes, scheduler_names
from tftraining_operator.core.raw_pod import DEFAULT_SCHEDULER
from tftraining_operator.core.roles import traits
from tftraining_operator.core.schedulers import SCHEDULERS
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.schedulers.scheduler import Carried
from tftraining_operator.core.times import parse, rfc3339

UNEXPLAINED = timedelta(seconds=10)
"""A scheduler that says nothing for so long is said to say nothing."""

_LONGEST_PREFIX = 40
"""Of a job's name in that of its group, which has to fit into a label's 63 characters."""


class SchedulerUnavailableError(Exception):
    """The job asks for a scheduler that the cluster does not have; the text is for the user."""

    def __init__(self, text: str, *, is_known: bool) -> None:
        """`is_known` is False while it may well have it: its API has not answered yet."""
        super().__init__(text)
        self.is_known = is_known


def next_gang(job: Job, observed: Observed, offer: Offer, now: datetime) -> GangStatus | None:
    """Return the gang of an active job, None for one whose pods are scheduled one by one.

    Raises SchedulerUnavailableError.
    """
    known, size = job.status.gang, _size(job)
    if known is None:
        # Pods that exist carry no group, and would have to go to get one.
        if job.status.start_time is not None:
            return None
        scheduler = _chosen(job, offer)
        if scheduler is None:
            return None
        formed = _formed(job, scheduler, size, rfc3339(now))
        return _found_again(job, formed, observed) or formed
    all_begin_anew = known.attempt != job.status.attempt and _begins_anew(job)
    if all_begin_anew or (is_waiting(known) and known.members != size):
        since = known.waiting_since if is_waiting(known) else rfc3339(now)
        return _formed(job, known.scheduler, size, since)
    if is_waiting(known) and _is_placed(job, known, observed):
        return known.model_copy(update={"scheduled_time": rfc3339(now)})
    return known


def needed(job: Job, role: Role) -> int:
    """Return how many pods of a role training needs to begin: those with the lowest indexes."""
    if not traits(job.spec.strategy, role).in_cluster:
        return 0
    wanted = job.desired(role)
    if role is Role.WORKER and has_run(job.status):
        # Training goes on without a worker that is to join later, and may never start.
        wanted = min(wanted, job.cluster_size(role))
    least = job.least_workers if role is Role.WORKER else None
    return wanted if least is None else min(least, wanted)


def is_waiting(gang: GangStatus | None) -> bool:
    """Tell whether there is a gang that still waits for its nodes."""
    return gang is not None and gang.scheduled_time is None


def is_resized(job: Job, gang: GangStatus | None) -> bool:
    """Tell whether a gang that waits, `gang` from now on, has another size than before."""
    known = job.status.gang
    if known is None or gang is None:
        return False
    return is_waiting(known) and known.members != gang.members


def is_in_the_way(job: Job, gang: GangStatus | None, pod: Pod) -> bool:
    """Tell whether a pod of the cluster has no part in a gang that waits."""
    if gang is None or not is_waiting(gang) or not traits(job.spec.strategy, pod.role).in_cluster:
        return False
    return pod.group != gang.group or pod.index >= needed(job, pod.role)


def carried(job: Job, gang: GangStatus | None, role: Role, index: int) -> Carried:
    """Return what a pod that is created now carries for its scheduler."""
    if gang is None:
        return Carried()
    scheduler = SCHEDULERS[gang.scheduler]
    if is_waiting(gang) and index < needed(job, role):
        found = scheduler.member(gang.group)
        own = {keys.ANNOTATION_GANG: gang.group}
        return replace(found, annotations={**found.annotations, **own})
    return scheduler.single(later_group(gang))


def later_group(gang: GangStatus) -> str | None:
    """Return the name of the group of pods that come after a gang, None while there is none."""
    if is_waiting(gang) or not SCHEDULERS[gang.scheduler].groups_later_pods:
        return None
    return f"{gang.group}-later"


def group_names(gang: GangStatus | None) -> list[str]:
    """Return the names of all groups that there are to be."""
    return [name for name in (gang.group, later_group(gang)) if name] if gang is not None else []


def needs_group(gang: GangStatus) -> bool:
    """Tell whether pods that are created now are in a group: else no pod waits for the object."""
    return is_waiting(gang) or later_group(gang) is not None


def scheduling(job: Job) -> Scheduling:
    """Return spec.scheduling, also of a job that has none."""
    return job.spec.scheduling or Scheduling()


def explained_by(gang: GangStatus | None) -> datetime | None:
    """Return when a gang has waited so long that the job says so, whatever its scheduler says."""
    if gang is None or not is_waiting(gang):
        return None
    return parse(gang.waiting_since) + UNEXPLAINED


def _size(job: Job) -> int:
    return sum(needed(job, role) for role in Role)


def _chosen(job: Job, offer: Offer) -> Gang | None:
    asked = scheduling(job).gang or Gang.AUTO
    if asked is Gang.NONE:
        return None
    if asked is Gang.AUTO:
        # Another scheduler may know nothing of a PodGroup, and a gang of one is none.
        fits = _size(job) > 1 and scheduler_names(job) == {DEFAULT_SCHEDULER}
        fits = fits and len(priority_classes(job)) == 1
        return Gang.IN_TREE if Gang.IN_TREE in offer.versions and fits else None
    if asked not in offer.versions:
        known = asked not in offer.silent
        raise SchedulerUnavailableError(offer.problem(asked), is_known=known)
    return asked


def _begins_anew(job: Job) -> bool:
    """Tell whether a new attempt replaces every pod of the cluster."""
    return all(traits(job.spec.strategy, r).drives_attempt for r in Role if needed(job, r))


def _is_placed(job: Job, gang: GangStatus, observed: Observed) -> bool:
    pods = (observed.get(role, i) for role in Role for i in range(needed(job, role)))
    return all(
        pod is not None and pod.group == gang.group and pod.node is not None and not pod.deleting
        for pod in pods
    )


def _found_again(job: Job, formed: GangStatus, observed: Observed) -> GangStatus | None:
    """Return the gang that pods with nodes are of, None if there is none but the `formed` one.

    The status of a job that runs was lost: none of its pods has to go for that.
    """
    pods = [pod for pod in observed.pods.values() if pod.node is not None and not pod.deleting]
    if not any(is_in_the_way(job, formed, pod) for pod in pods):
        return None
    group = next((pod.group for pod in pods if pod.group is not None), formed.group)
    placed = {"group": group, "scheduled_time": formed.waiting_since}
    return formed.model_copy(update=placed)


def _formed(job: Job, scheduler: Gang, size: int, since: str) -> GangStatus:
    # All that a group says is in its name: a group is never changed.
    prefix = f"{job.name[:_LONGEST_PREFIX]}-{identity(job.uid)}"
    return GangStatus(
        scheduler=scheduler,
        group=f"{prefix}-{job.status.attempt}-{size}",
        attempt=job.status.attempt,
        members=size,
        waiting_since=since,
    )
