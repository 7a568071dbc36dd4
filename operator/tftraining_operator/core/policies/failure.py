"""Which failures end the job, and which restart its attempt."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Disruption
from tftraining_operator.api.types import RestartPolicy
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.exit_codes import ExitCode, could_not_start, is_permanent
from tftraining_operator.core.history import has_run
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.roles import traits
from tftraining_operator.core.times import parse

_WITHOUT_WORKERS = (ExitCode.PEERS_UNAVAILABLE, ExitCode.STALLED)
"""How a chief ends that waits for workers."""
_LONGEST_GRACE = timedelta(minutes=10)
"""For so long a server may go on after its end was announced."""


def drives_attempt(job: Job, role: Role) -> bool:
    """Tell whether a failure of this role ends the attempt."""
    return traits(job.spec.strategy, role).drives_attempt


def fatal(job: Job, observed: Observed) -> Pod | None:
    """Return a pod whose failure ends the job at once."""
    for pod in _of_attempt(job, observed):
        if pod.failure is None or pod.disrupted or pod.deleting:
            continue
        given = job.spec.role(pod.role)
        policy = given.restart_policy if given is not None else RestartPolicy.EXIT_CODE
        if policy is RestartPolicy.NEVER and pod.failed:
            return pod
        is_final = is_permanent(pod.failure) and not _recovers(job, pod, pod.failure)
        if policy is RestartPolicy.EXIT_CODE and is_final:
            return pod
    return None


def _recovers(job: Job, pod: Pod, cause: Cause) -> bool:
    """Tell whether a pod failed by its node, as others have run this command, or has recovered."""
    if could_not_start(cause) and has_run(job.status):
        return True
    return pod.trains_since is not None and not drives_attempt(job, pod.role)


def attempt_failure(job: Job, observed: Observed) -> Pod | None:
    """Return the pod whose failure ends the present attempt.

    A pod that is being deleted was taken away, by us or by somebody: its end is no failure. Of a
    gang that ended between two looks it is the first that did not end for want of the others.
    """
    failed = [
        pod
        for pod in _of_attempt(job, observed)
        if drives_attempt(job, pod.role) and pod.failed and not pod.deleting
    ]
    return min(failed, key=_followed, default=None)


def _followed(pod: Pod) -> bool:
    """Tell whether a pod says that it ended because of another one."""
    return pod.failure is not None and pod.failure.exit_code == ExitCode.PEERS_UNAVAILABLE


def disruption_behind(job: Job, observed: Observed, culprit: Pod) -> tuple[str, str] | None:
    """Return name and reason of the pod that the cluster took away, if a failure follows from it.

    The chief of a drained ps fails as that of a crashed one does; which it was, the status keeps,
    for the ps is gone by then. A worker's end ends no attempt, but where all are gone the chief
    waits for them in vain.
    """
    if culprit.disruption is not None:
        return culprit.name, culprit.disruption.reason
    last = _foremost(job, _announced(job, observed))
    if last is None:
        last = job.status.last_disruption
        if last is None or culprit.created_at is None:
            return None
        if parse(last.time) < parse(culprit.created_at):
            return None
    if _trained_after(job, last):
        return None
    code = culprit.failure.exit_code if culprit.failure is not None else None
    return (last.pod, last.reason) if _ends(job, last) or code in _WITHOUT_WORKERS else None


def newest_disruption(job: Job, observed: Observed) -> Disruption | None:
    """Return the newest disruption that ends an attempt: of a pod, or of the last worker."""
    known, chief = job.status.last_disruption, observed.get(Role.CHIEF)
    found = _announced(job, observed)
    if known is None:
        return _foremost(job, found)
    born = chief.created_at if chief is not None else None
    if born is not None and parse(known.time) >= parse(born):
        # It still counts, also where a worker goes after a ps.
        return _foremost(job, [known, *found])
    return _foremost(job, found) or known


def _announced(job: Job, observed: Observed) -> list[Disruption]:
    found = [
        Disruption(
            role=pod.role.value,
            pod=pod.name,
            reason=pod.disruption.reason,
            time=pod.disruption.time,
        )
        for pod in observed.pods.values()
        if pod.disruption is not None and pod.disruption.time and _is_needed(job, observed, pod)
    ]
    # Times are whole seconds: of two at once, the first by name is the same for each operator.
    return sorted(found, key=lambda each: each.pod)


def _foremost(job: Job, found: Sequence[Disruption]) -> Disruption | None:
    """Return the newest of those that end an attempt by themselves, else the newest."""
    return max(found, key=lambda each: (_ends(job, each), parse(each.time)), default=None)


def _ends(job: Job, disruption: Disruption) -> bool:
    return traits(job.spec.strategy, Role(disruption.role)).loss_ends_attempt


def _is_needed(job: Job, observed: Observed, pod: Pod) -> bool:
    role = traits(job.spec.strategy, pod.role)
    if role.loss_ends_attempt or not role.serves:
        return role.loss_ends_attempt
    # Before training begins the chief waits for all of them.
    return not is_true(job.status, ConditionType.RUNNING) or not any(
        other.counts_as_ready and not other.disrupted for other in observed.of(pod.role)
    )


def _trained_after(job: Job, last: Disruption) -> bool:
    """Tell whether training went on although something was taken away, and not for its grace."""
    progress = job.status.progress
    if progress is None or progress.last_step_time is None:
        return False
    return parse(progress.last_step_time) > parse(last.time) + _LONGEST_GRACE


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
