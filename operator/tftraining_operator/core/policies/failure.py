"""Which failures end the job, and which restart its attempt."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import RestartPolicy, Strategy
from tftraining_operator.core.exit_codes import is_permanent
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.times import parse

DISRUPTED = "Disrupted"
NODE_LOST = "NodeLost"
NOT_COUNTED = frozenset({DISRUPTED, NODE_LOST})
"""Reasons of restarts that are nobody's failure: neither counted nor put off."""

_OVERDUE = timedelta(seconds=30)
"""A node that has not ended a pod so long after its grace is taken for lost."""


def is_gang(job: Job) -> bool:
    """Tell whether the chief's attempt takes all workers with it."""
    return job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED


def drives_attempt(job: Job, role: Role) -> bool:
    """Tell whether a failure of this role ends the attempt."""
    return role is Role.CHIEF or (role is Role.WORKER and is_gang(job))


def fatal(job: Job, observed: Observed) -> Pod | None:
    """Return a pod whose failure ends the job at once."""
    for pod in _current(job, observed):
        if pod.failure is None or pod.disrupted or pod.deleting or pod.ready:
            continue
        given = job.spec.role(pod.role)
        policy = given.restart_policy if given is not None else RestartPolicy.EXIT_CODE
        if policy is RestartPolicy.NEVER and pod.failed:
            return pod
        if policy is RestartPolicy.EXIT_CODE and is_permanent(pod.failure):
            return pod
    return None


def attempt_failure(job: Job, observed: Observed) -> Pod | None:
    """Return the pod whose failure ends the present attempt.

    A pod that is being deleted was taken away, by us or by somebody: its end is no failure.
    """
    for pod in _current(job, observed):
        if drives_attempt(job, pod.role) and pod.failed and not pod.deleting:
            return pod
    return None


def disrupted_with(job: Job, observed: Observed, culprit: Pod) -> bool:
    """Tell whether a pod's failure follows from what the cluster took away, itself or a server.

    The chief of a drained ps fails as that of a crashed one does; which it was, the status keeps,
    for the ps is gone by then.
    """
    if culprit.disrupted or any(
        p.disrupted for p in _current(job, observed) if ends_attempt_when_lost(job, p)
    ):
        return True
    last = job.status.last_disruption
    if last is None or culprit.created_at is None:
        return False
    return parse(last.time) >= parse(culprit.created_at)


def overdue_at(pod: Pod) -> datetime | None:
    """Return when a pod that is being deleted counts as held by a lost node."""
    return parse(pod.grace_ends) + _OVERDUE if pod.grace_ends is not None else None


def is_stale(job: Job, pod: Pod) -> bool:
    """Tell whether a pod belongs to an older attempt or to a cluster of another size."""
    if not drives_attempt(job, pod.role):
        return False
    return pod.attempt < job.status.attempt or (
        pod.active and pod.workers is not None and pod.workers != job.worker_set
    )


def is_lost_server(job: Job, pod: Pod) -> bool:
    """Tell whether a pod that the kubelet will not restart, or not soon, has to be replaced.

    Servers never end by themselves: one that ended well was ended by its node.
    """
    if drives_attempt(job, pod.role):
        return False
    return (
        pod.failed or pod.in_restart_backoff or (pod.succeeded and pod.role is not Role.EVALUATOR)
    )


def ends_attempt_when_lost(job: Job, pod: Pod) -> bool:
    """Tell whether the loss of this pod ends the attempt."""
    return pod.role is Role.PS or drives_attempt(job, pod.role)


def _current(job: Job, observed: Observed) -> Iterator[Pod]:
    for role in (Role.CHIEF, Role.WORKER, Role.PS):
        for pod in observed.of(role):
            if not is_stale(job, pod) and pod.index < job.desired(role):
                yield pod
