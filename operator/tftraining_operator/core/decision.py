"""What is to become of a job, decided from stored status and observed pods alone."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.conditions import find, is_finished
from tftraining_operator.core.exit_codes import is_permanent, restart_reason
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod, slots
from tftraining_operator.core.policies import deadlines, failure, success
from tftraining_operator.core.policies.membership import ALL_WORKERS, Membership, membership


class Phase(StrEnum):
    """Where a job stands in its life."""

    SUSPENDED = "Suspended"
    ACTIVE = "Active"
    EVALUATING = "Evaluating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    FINISHED = "Finished"
    """The end is stored; what is left is cleaning up."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one look at a job."""

    phase: Phase
    attempt: int
    restarts: int
    reason: str = ""
    message: str = ""
    chief_completed: datetime | None = None
    culprit: Pod | None = None
    """The pod whose failure decided."""
    wake_at: datetime | None = None
    """When to look again though nothing changes."""
    membership: Membership = ALL_WORKERS
    """Without which workers the job goes on."""

    def restarts_attempt(self, job: Job) -> bool:
        """Tell whether this decision begins a new attempt."""
        return self.attempt != job.status.attempt

    def changes_cluster(self, job: Job) -> bool:
        """Tell whether this decision leaves a worker out or takes one back."""
        return list(self.membership.excluded) != job.status.excluded_workers


def decide(job: Job, observed: Observed, now: datetime) -> Decision:
    """Decide. Terminal ends are absorbing; success comes before failure, failure before waiting."""
    if is_finished(job.status):
        return _stay(job, Phase.FINISHED, wake_at=deadlines.expiry(job))
    completed = success.chief_completed(job, observed, now)
    if completed is not None:
        return _completed(job, observed, completed, now)
    if job.spec.run_policy.suspend:
        return _stay(job, Phase.SUSPENDED)
    culprit = failure.fatal(job, observed)
    if culprit is not None:
        return _stay(
            job,
            Phase.FAILED,
            reason="PermanentFailure" if _is_permanent(culprit) else "PodFailed",
            message=describe(culprit),
            culprit=culprit,
        )
    return _deadline_passed(job, observed, now) or _attempt(job, observed, now)


def _completed(job: Job, observed: Observed, completed: datetime, now: datetime) -> Decision:
    missing = success.evaluation_missing(job, observed, completed, now)
    if missing is None:
        grace_ends = deadlines.evaluator_deadline(job, completed)
        return _stay(
            job,
            Phase.EVALUATING,
            reason="Evaluating",
            message="the chief succeeded; the evaluator finishes the last checkpoint",
            chief_completed=completed,
            wake_at=grace_ends,
        )
    return _stay(
        job,
        Phase.SUCCEEDED,
        reason="NotEvaluated" if missing else "ChiefSucceeded",
        message=f"the chief succeeded; the last checkpoint was not evaluated: {missing}"
        if missing
        else "the chief succeeded",
        chief_completed=completed,
    )


def _deadline_passed(job: Job, observed: Observed, now: datetime) -> Decision | None:
    active = deadlines.active_deadline(job)
    if active is not None and now >= active:
        limit = job.spec.run_policy.active_deadline_seconds
        return _stay(
            job,
            Phase.FAILED,
            reason="DeadlineExceeded",
            message=f"not finished within activeDeadlineSeconds ({limit} s)",
        )
    startup = deadlines.startup_deadline(job)
    if startup is not None and now >= startup:
        limit = job.spec.run_policy.startup_deadline_seconds
        return _stay(
            job,
            Phase.FAILED,
            reason="StartupDeadlineExceeded",
            message=f"not running within startupDeadlineSeconds ({limit} s): "
            + startup_culprit(job, observed),
        )
    return None


def _attempt(job: Job, observed: Observed, now: datetime) -> Decision:
    chief = observed.get(Role.CHIEF)
    overdue = failure.overdue_at(chief) if chief is not None else None
    if (
        chief is not None
        and overdue is not None
        and now >= overdue
        and not failure.is_stale(job, chief)
    ):
        message = f"{chief.name} was deleted and does not end: its node is taken for lost"
        return _restart(job, failure.NODE_LOST, message, 0, chief)
    culprit = failure.attempt_failure(job, observed)
    if culprit is not None:
        if failure.disrupted_with(job, observed, culprit):
            return _restart(job, failure.DISRUPTED, _disruption(job, culprit), 0, culprit)
        reason = restart_reason(culprit.role, culprit.failure)
        return _counted(job, reason, describe(culprit), culprit)
    stall = deadlines.stall_deadline(job)
    if stall is not None and now >= stall:
        limit = job.spec.run_policy.stall_timeout_seconds
        return _counted(job, "Stalled", f"no new step within stallTimeoutSeconds ({limit} s)", None)
    members = membership(job, observed, now)
    waits = (
        deadlines.active_deadline(job),
        deadlines.startup_deadline(job),
        stall,
        deadlines.silence_deadline(job, job.status.progress),
        overdue,
        members.wake_at,
    )
    wake_at = min((w for w in waits if w and w > now), default=None)
    return replace(_stay(job, Phase.ACTIVE, wake_at=wake_at), membership=members)


def _disruption(job: Job, culprit: Pod) -> str:
    last = job.status.last_disruption
    name = culprit.name if culprit.disrupted or last is None else last.pod
    return f"{name} was taken away by the cluster"


def _counted(job: Job, reason: str, message: str, culprit: Pod | None) -> Decision:
    limit = job.spec.run_policy.backoff_limit
    if job.status.restarts >= limit:
        return _stay(
            job,
            Phase.FAILED,
            reason="BackoffLimitExceeded",
            message=f"{message}; backoffLimit ({limit}) is used up",
            culprit=culprit,
        )
    count = job.status.restarts + 1
    return _restart(job, reason, f"{message}; restart {count} of {limit}", 1, culprit)


def _restart(job: Job, reason: str, message: str, count: int, culprit: Pod | None) -> Decision:
    return Decision(
        phase=Phase.ACTIVE,
        attempt=job.status.attempt + 1,
        restarts=job.status.restarts + count,
        reason=reason,
        message=message,
        culprit=culprit,
        membership=_present(job),
    )


def _present(job: Job) -> Membership:
    return Membership(tuple(job.status.excluded_workers), tuple(job.status.unavailable_workers))


def _stay(
    job: Job,
    phase: Phase,
    *,
    reason: str = "",
    message: str = "",
    chief_completed: datetime | None = None,
    culprit: Pod | None = None,
    wake_at: datetime | None = None,
) -> Decision:
    return Decision(
        phase=phase,
        attempt=job.status.attempt,
        restarts=job.status.restarts,
        reason=reason,
        message=message,
        chief_completed=chief_completed,
        culprit=culprit,
        wake_at=wake_at,
    )


def _is_permanent(pod: Pod) -> bool:
    return pod.failure is not None and is_permanent(pod.failure)


def describe(pod: Pod) -> str:
    """Say in one sentence how a pod failed."""
    return f"{pod.name} {describe_exit(pod.failure)}" if pod.failure else f"{pod.name} failed"


def describe_exit(cause: Cause) -> str:
    """Say in a few words how something failed, with the last line that is known."""
    code = f"exited with {cause.exit_code}" if cause.exit_code is not None else "failed"
    word = f" ({cause.reason})" if cause.reason != "ExitCode" else ""
    lines = [line for line in cause.message.splitlines() if line.strip()]
    return f"{code}{word}" + (f": {lines[-1].strip()[:300]}" if lines else "")


def startup_culprit(job: Job, observed: Observed) -> str:
    """Name what keeps the job from running: the pod in trouble first, then who is not ready."""
    ready = find(job.status.conditions, ConditionType.PODS_READY)
    waiting = [
        name
        for role, index, name in slots(job)
        if (pod := observed.get(role, index)) is None or not (pod.ready or pod.succeeded)
    ]
    if ready is not None and ready.message and waiting:
        return ready.message
    chief = observed.get(Role.CHIEF)
    if waiting:
        return "not ready: " + ", ".join(waiting[:5])
    return f"{chief.name} does not get ready" if chief else "there is no chief"
