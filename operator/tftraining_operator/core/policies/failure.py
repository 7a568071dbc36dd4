"""Which failures end the job, and which restart its attempt."""

from collections.abc import Iterator

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import RestartPolicy
from tftraining_operator.core.exit_codes import is_permanent
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.roles import traits
from tftraining_operator.core.times import parse


def drives_attempt(job: Job, role: Role) -> bool:
    """Tell whether a failure of this role ends the attempt."""
    return traits(job.spec.strategy, role).drives_attempt


def fatal(job: Job, observed: Observed) -> Pod | None:
    """Return a pod whose failure ends the job at once."""
    for pod in _of_attempt(job, observed):
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
    for pod in _of_attempt(job, observed):
        if drives_attempt(job, pod.role) and pod.failed and not pod.deleting:
            return pod
    return None


def is_disruption(job: Job, observed: Observed, culprit: Pod) -> bool:
    """Tell whether a failure follows from what the cluster took away: the pod or a server of it.

    The chief of a drained ps fails as that of a crashed one does; which it was, the status keeps,
    for the ps is gone by then.
    """
    if culprit.disrupted or any(
        pod.disrupted
        for pod in _of_attempt(job, observed)
        if traits(job.spec.strategy, pod.role).loss_ends_attempt
    ):
        return True
    last = job.status.last_disruption
    if last is None or culprit.created_at is None:
        return False
    return parse(last.time) >= parse(culprit.created_at)


def last_disruption(job: Job, pod: str) -> str:
    """Return why the cluster took a pod of this name away since the last restart, "" if it did not.

    For one that is gone. Those before are of another attempt.
    """
    last, restart = job.status.last_disruption, job.status.last_restart
    if last is None or last.pod != pod:
        return ""
    return last.reason if restart is None or parse(last.time) > parse(restart.time) else ""


def is_stale(job: Job, pod: Pod) -> bool:
    """Tell whether a pod that drives the attempt belongs to an older one."""
    return drives_attempt(job, pod.role) and pod.attempt < job.status.attempt


def _of_attempt(job: Job, observed: Observed) -> Iterator[Pod]:
    for role in (Role.CHIEF, Role.WORKER, Role.PS):
        for pod in observed.of(role):
            if not is_stale(job, pod) and pod.index < job.cluster_size(role):
                yield pod
