"""Which failures end the job, and which restart its attempt."""

from collections.abc import Iterator

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import RestartPolicy, Strategy
from tftraining_operator.core.exit_codes import is_permanent
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod


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


def is_stale(job: Job, pod: Pod) -> bool:
    """Tell whether a pod belongs to an older attempt or to a cluster of another size."""
    if not drives_attempt(job, pod.role):
        return False
    return pod.attempt < job.status.attempt or (
        pod.active and pod.workers is not None and pod.workers != job.desired(Role.WORKER)
    )


def is_lost_server(job: Job, pod: Pod) -> bool:
    """Tell whether a pod that the kubelet will not restart has to be replaced.

    Servers never end by themselves: one that ended well was ended by its node.
    """
    if drives_attempt(job, pod.role):
        return False
    return pod.failed or (pod.succeeded and pod.role is not Role.EVALUATOR)


def _current(job: Job, observed: Observed) -> Iterator[Pod]:
    for role in (Role.CHIEF, Role.WORKER, Role.PS):
        for pod in observed.of(role):
            if not is_stale(job, pod) and pod.index < job.desired(role):
                yield pod
