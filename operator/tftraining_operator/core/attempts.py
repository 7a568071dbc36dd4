"""Whether the chief has to begin anew: a new attempt, stored before anything is deleted for it."""

from dataclasses import replace
from datetime import datetime

from tftraining_operator.api.keys import Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import GangStatus
from tftraining_operator.core.decision import Decision, Phase, stay
from tftraining_operator.core.exit_codes import restart_reason
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import is_resized
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import describe_pod_failure
from tftraining_operator.core.naming import pod_name
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.policies import (
    failure,
    out_of_memory,
    repeated_failure,
    stall,
    termination,
)
from tftraining_operator.core.policies.membership import Membership, membership
from tftraining_operator.core.policies.restart import restart_record
from tftraining_operator.core.text import counted


def not_behind(job: Job, observed: Observed) -> Job:
    """Return a job whose attempt is at least that of its pods, which begins before they are made.

    Behind them, an edited status would count one failure of the chief for each attempt it lacks.
    """
    newest = max((pod.attempt for pod in observed.pods.values()), default=0)
    if newest <= job.status.attempt:
        return job
    problem = f"status.attempt: {job.status.attempt} is behind the pods of the job; set to {newest}"
    status = job.status.model_copy(update={"attempt": newest})
    return replace(job, status=status, repairs=(*job.repairs, problem))


def resized_gang(
    job: Job, observed: Observed, gang: GangStatus | None, now: datetime
) -> Decision | None:
    """Return the decision for a gang that gets another size while it waits, chief included."""
    if not is_resized(job, gang) or not _has_chief(job, observed):
        return None
    size = job.desired(Role.WORKER)
    message = f"scaled to {counted(size, 'worker')} while waiting for nodes"
    return _restart(job, observed, now, Reason.SCALED, message, members=Membership(size))


def new_attempt(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision | None:
    """Return the decision for a new attempt, None if the present one goes on."""
    chief = observed.get(Role.CHIEF)
    if chief is None and job.status.chief_uid is not None:
        # Another pod with the same number could write checkpoints beside one that lives on.
        name = pod_name(job.name, Role.CHIEF, 0)
        reason, lost = Reason.CHIEF_LOST, "the chief's pod is gone"
        if why := failure.last_disruption(job, name):
            reason, lost = Reason.DISRUPTED, f"{name} was disrupted ({why})"
        message = f"{lost}; a new one resumes from the newest checkpoint"
        return _restart(job, observed, now, reason, message)
    overdue = termination.overdue_at(chief) if chief is not None else None
    if (
        chief is not None
        and overdue is not None
        and now >= overdue
        and not failure.is_stale(job, chief)
    ):
        message = f"{chief.name} is {termination.NODE_LOST}"
        return _restart(job, observed, now, Reason.NODE_LOST, message, culprit=chief)
    culprit = failure.attempt_failure(job, observed)
    if culprit is not None:
        return _attempt_failed(job, observed, culprit, now)
    age = stall.newest_step(job, observed, facts, now)
    if stall.has_timed_out(job, age):
        limit = job.spec.run_policy.stall_timeout_seconds
        message = f"no new step within stallTimeoutSeconds ({limit} s)"
        return _counted(job, observed, now, Reason.STALLED, message)
    return _new_cluster(job, observed, now)


def _new_cluster(job: Job, observed: Observed, now: datetime) -> Decision | None:
    """Return the decision for a chief that has to begin anew only to know its cluster."""
    changed, chief = membership(job, observed, now), observed.get(Role.CHIEF)
    if (change := changed.change(job)) is not None and _has_chief(job, observed):
        reason, message = change
        return _restart(job, observed, now, reason, message, members=changed)
    if chief is not None and _knows_another_cluster(job, chief):
        message = f"{chief.name} was created for other workers than the cluster has"
        return _restart(job, observed, now, Reason.SCALED, message, members=changed)
    return None


def _knows_another_cluster(job: Job, chief: Pod) -> bool:
    """Tell whether a chief was made while another operator, which had not seen it, scaled the job.

    Older operators wrote the workers down in other ways.
    """
    is_present = not chief.deleting and not failure.is_stale(job, chief)
    is_of_older = chief.fingerprint is None
    return is_present and not is_of_older and chief.workers not in (None, job.worker_set)


def _attempt_failed(job: Job, observed: Observed, culprit: Pod, now: datetime) -> Decision:
    if (taken := failure.disruption_behind(job, observed, culprit)) is not None:
        name, why = taken
        message = f"{name} was disrupted ({why}); restarting from the newest checkpoint"
        return _restart(job, observed, now, Reason.DISRUPTED, message, culprit=culprit)
    message = describe_pod_failure(culprit).rstrip(".")
    if advice := out_of_memory.advice(job, culprit):
        message = f"{message}; {advice}"
    if verdict := repeated_failure.verdict(job, culprit):
        message = f"{message}; {verdict}"
        return stay(job, Phase.FAILED, Reason.REPEATED_FAILURE, message, culprit)
    reason = restart_reason(culprit.role, culprit.failure)
    return _counted(job, observed, now, reason, message, culprit=culprit)


def _counted(
    job: Job,
    observed: Observed,
    now: datetime,
    reason: Reason,
    message: str,
    *,
    culprit: Pod | None = None,
) -> Decision:
    limit = job.spec.run_policy.backoff_limit
    if job.status.restarts >= limit:
        message = f"{message}; backoffLimit ({limit}) exceeded"
        return stay(job, Phase.FAILED, Reason.BACKOFF_LIMIT_EXCEEDED, message, culprit)
    message = f"{message}; restart {job.status.restarts + 1} of {limit}"
    return _restart(job, observed, now, reason, message, culprit=culprit, counted=True)


def _restart(
    job: Job,
    observed: Observed,
    now: datetime,
    reason: Reason,
    message: str,
    *,
    culprit: Pod | None = None,
    counted: bool = False,
    members: Membership | None = None,
) -> Decision:
    return Decision(
        phase=Phase.ACTIVE,
        attempt=job.status.attempt + 1,
        restarts=job.status.restarts + counted,
        membership=members or membership(job, observed, now),
        reason=reason,
        message=message,
        culprit=culprit,
        restart=restart_record(job, reason, message, culprit, counted=counted, now=now),
    )


def _has_chief(job: Job, observed: Observed) -> bool:
    return observed.get(Role.CHIEF) is not None or job.status.chief_uid is not None
