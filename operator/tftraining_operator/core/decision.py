"""What is to become of a job: the one place where that is decided, and all that follows from it.

The pass (reconcile/reconciler.py) asks once. Policies (core/policies) say what they want; the plan
(core/plan.py) only translates the decision into objects, the status (core/status.py) stores it.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tftraining_operator.api.keys import Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Restart
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.exit_codes import is_permanent, restart_reason
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import describe_pod_failure, startup_culprit
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.policies import (
    cleanup,
    creation,
    deadlines,
    failure,
    out_of_memory,
    repeated_failure,
    stall,
    success,
    termination,
)
from tftraining_operator.core.policies.creation import Slot
from tftraining_operator.core.policies.membership import Membership, membership, present
from tftraining_operator.core.policies.reachability import reachability
from tftraining_operator.core.policies.removal import Removal, first_of_each_pod
from tftraining_operator.core.policies.restart import restart_record
from tftraining_operator.core.policies.servers import lost_servers


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
    membership: Membership
    reason: Reason | None = None
    message: str = ""
    culprit: Pod | None = None
    """The pod whose failure decided."""
    restart: Restart | None = None
    """The restart that is decided now: a new attempt, stored before anything is deleted."""
    chief_completed: datetime | None = None
    removals: tuple[Removal, ...] = ()
    """Pods to delete now."""
    announced: tuple[Removal, ...] = ()
    """Pods to replace in the next pass: stored first, as each one delays the next."""
    creations: tuple[Slot, ...] = ()
    """Pods to create now, by role and index, in this order."""
    wants_service: bool = False
    """Whether the service has to exist."""
    delete_service: bool = False
    delete_job: bool = False
    suspicion: str = ""
    """Why nothing is done about servers that the chief cannot reach."""
    look_again: datetime | None = None
    """When to look again though nothing changes."""


def decide(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    """Decide. Terminal ends are absorbing; success comes before failure, failure before waiting."""
    if is_finished(job.status):
        return _finished(job, observed, facts, now)
    completed = success.chief_completed(job, observed, now)
    if completed is not None:
        return _completed(job, observed, facts, completed, now)
    if job.spec.run_policy.suspend:
        return _suspended(job, observed, facts, now)
    return (
        _fatal(job, observed)
        or _deadline_passed(job, observed, facts, now)
        or _restarted(job, observed, facts, now)
        or _active(job, observed, facts, now)
    )


def _finished(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    expiry = deadlines.expiry(job)
    if expiry is not None and now >= expiry:
        return replace(_stay(job, Phase.FINISHED), delete_job=True)
    unwanted = cleanup.pods_to_clean(job, observed)
    ending = termination.end_in_order(job, observed, unwanted, now)
    return _schedule(
        job,
        replace(
            _stay(job, Phase.FINISHED),
            delete_service=observed.has_service and not cleanup.keeps_service(job),
        ),
        [*ending, *termination.overdue(job, observed)],
        facts,
        now,
        expiry,
    )


def _completed(
    job: Job, observed: Observed, facts: Facts, completed: datetime, now: datetime
) -> Decision:
    missing = success.evaluation_missing(job, observed, completed, now)
    if missing is not None:
        reason = Reason.NOT_EVALUATED if missing else Reason.CHIEF_SUCCEEDED
        message = "the chief succeeded"
        if missing:
            message += f"; the last checkpoint was not evaluated: {missing}"
        found = _stay(job, Phase.SUCCEEDED, reason, message)
        return replace(found, chief_completed=completed)
    found = replace(
        _stay(
            job,
            Phase.EVALUATING,
            Reason.EVALUATING,
            "the chief succeeded; the evaluator finishes the last checkpoint",
        ),
        chief_completed=completed,
    )
    grace_ends = deadlines.evaluator_deadline(job, completed)
    if job.status.chief_completion_time is None:
        return replace(found, look_again=grace_ends)
    released = [Removal(pod, now) for pod in cleanup.servers_to_release(job, observed)]
    lost = [r for r in lost_servers(job, observed, now) if r.pod.role is Role.EVALUATOR]
    created = creation.missing_evaluator(job, observed, facts, now)
    found = replace(found, creations=created.slots)
    return _schedule(job, found, [*released, *lost], facts, now, grace_ends, created.due)


def _suspended(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    message = "suspended by spec.runPolicy.suspend; the checkpoint is kept"
    found = _stay(job, Phase.SUSPENDED, Reason.SUSPENDED, message)
    pods = list(observed.pods.values())
    if not pods:
        # The next chief is another pod, so it gets a number of its own, and a whole cluster.
        found = replace(
            found,
            attempt=job.status.attempt + (job.status.chief_uid is not None),
            membership=Membership(job.desired(Role.WORKER)),
        )
    ending = termination.end_in_order(job, observed, pods, now)
    return _schedule(job, found, [*ending, *termination.overdue(job, observed)], facts, now)


def _fatal(job: Job, observed: Observed) -> Decision | None:
    culprit = failure.fatal(job, observed)
    if culprit is None:
        return None
    permanent = culprit.failure is not None and is_permanent(culprit.failure)
    reason = Reason.PERMANENT_FAILURE if permanent else Reason.POD_FAILED
    return _stay(job, Phase.FAILED, reason, describe_pod_failure(culprit), culprit)


def _deadline_passed(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision | None:
    policy = job.spec.run_policy
    active = deadlines.active_deadline(job)
    if active is not None and now >= active:
        limit = f"activeDeadlineSeconds ({policy.active_deadline_seconds} s)"
        message = f"not finished within {limit}"
        return _stay(job, Phase.FAILED, Reason.DEADLINE_EXCEEDED, message)
    chief = observed.get(Role.CHIEF)
    if chief is not None and chief.counts_as_ready and not failure.is_stale(job, chief):
        # It runs, whatever the status has not noted yet.
        return None
    startup = deadlines.startup_deadline(job)
    if startup is not None and now >= startup:
        limit = f"startupDeadlineSeconds ({policy.startup_deadline_seconds} s)"
        message = f"not running within {limit}: {startup_culprit(job, observed, facts)}"
        return _stay(job, Phase.FAILED, Reason.STARTUP_DEADLINE_EXCEEDED, message)
    recovery = deadlines.recovery_deadline(job)
    if recovery is not None and now >= recovery:
        limit = f"recoveryDeadlineSeconds ({policy.recovery_deadline_seconds} s)"
        message = f"not running again within {limit}: {startup_culprit(job, observed, facts)}"
        return _stay(job, Phase.FAILED, Reason.RECOVERY_DEADLINE_EXCEEDED, message)
    return None


def _restarted(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision | None:
    """Return the decision for a new attempt, None if the present one goes on."""
    chief = observed.get(Role.CHIEF)
    if chief is None and job.status.chief_uid is not None:
        # Another pod with the same number could write checkpoints beside one that lives on.
        message = "the chief's pod is gone; a new one resumes from the newest checkpoint"
        return _restart(job, observed, now, Reason.CHIEF_LOST, message)
    overdue = termination.overdue_at(chief) if chief is not None else None
    if (
        chief is not None
        and overdue is not None
        and now >= overdue
        and not failure.is_stale(job, chief)
    ):
        message = f"{chief.name} is still terminating past its grace period; assuming its node is"
        return _restart(job, observed, now, Reason.NODE_LOST, f"{message} lost", culprit=chief)
    culprit = failure.attempt_failure(job, observed)
    if culprit is not None:
        return _attempt_failed(job, observed, culprit, now)
    age = stall.newest_step(job, observed, facts, now)
    deadline = stall.stall_deadline(job, age)
    if deadline is not None and now >= deadline:
        limit = job.spec.run_policy.stall_timeout_seconds
        message = f"no new step within stallTimeoutSeconds ({limit} s)"
        return _counted(job, observed, now, Reason.STALLED, message)
    changed = membership(job, observed, now)
    if (change := changed.change(job)) is not None and _has_chief(job, observed):
        reason, message = change
        return _restart(job, observed, now, reason, message, members=changed)
    return None


def _attempt_failed(job: Job, observed: Observed, culprit: Pod, now: datetime) -> Decision:
    if failure.is_disruption(job, observed, culprit):
        last = job.status.last_disruption
        name = culprit.name if culprit.disrupted or last is None else last.pod
        why = culprit.disruption.reason if culprit.disruption else (last.reason if last else "")
        message = f"{name} was disrupted ({why}); restarting from the newest checkpoint"
        return _restart(job, observed, now, Reason.DISRUPTED, message, culprit=culprit)
    message = describe_pod_failure(culprit)
    if advice := out_of_memory.advice(job, culprit):
        message = f"{message}; {advice}"
    if verdict := repeated_failure.verdict(job, culprit):
        message = f"{message}; {verdict}"
        return _stay(job, Phase.FAILED, Reason.REPEATED_FAILURE, message, culprit)
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
        return _stay(job, Phase.FAILED, Reason.BACKOFF_LIMIT_EXCEEDED, message, culprit)
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


def _active(job: Job, observed: Observed, facts: Facts, now: datetime) -> Decision:
    members = membership(job, observed, now)
    if members.change(job) is not None:
        # No chief knows the present cluster: the new one is stored, then pods are made for it.
        return replace(_stay(job, Phase.ACTIVE), membership=members, look_again=now)
    unwanted = [pod for pod in observed.pods.values() if _is_unwanted(job, pod)]
    found = reachability(job, observed, facts, now)
    removals = [
        *termination.end_in_order(job, observed, unwanted, now),
        *termination.overdue(job, observed),
        *(r for r in lost_servers(job, observed, now) if r.pod not in unwanted),
        *found.replacements,
    ]
    created = creation.missing_pods(job, observed, facts, now)
    age = stall.newest_step(job, observed, facts, now)
    decision = replace(
        _stay(job, Phase.ACTIVE),
        membership=members,
        creations=created.slots,
        wants_service=not (facts.waits(now) and job.name in facts.refused),
        delete_service=observed.service_is_changed,
        suspicion=found.suspicion,
    )
    return _schedule(
        job,
        decision,
        removals,
        facts,
        now,
        created.due,
        members.due,
        deadlines.active_deadline(job),
        deadlines.startup_deadline(job),
        deadlines.recovery_deadline(job),
        stall.stall_deadline(job, age),
        stall.silence_deadline(facts.reports.get(Role.CHIEF), age),
        age.awaited_until,
        *(pod.startup_recheck_at for pod in observed.pods.values()),
    )


def _schedule(
    job: Job,
    decision: Decision,
    removals: list[Removal],
    facts: Facts,
    now: datetime,
    *moments: datetime | None,
) -> Decision:
    """Split removals into those that are due and the rest; note when to look again."""
    refused = facts.undeletable if facts.waits(now) else {}
    wanted = [r for r in first_of_each_pod(removals) if r.pod.name not in refused]
    waits = [
        *(removal.due for removal in wanted),
        *(moment for moment in moments if moment is not None),
        *([facts.retry_at] if facts.retry_at is not None else []),
    ]
    stored = {known.uid for known in job.status.replacements}
    due = [removal for removal in wanted if removal.due <= now]
    announced = [r for r in due if r.is_replacement and r.pod.uid not in stored]
    return replace(
        decision,
        removals=tuple(removal for removal in due if removal not in announced),
        announced=tuple(announced),
        look_again=min((moment for moment in waits if moment > now), default=None),
    )


def _is_unwanted(job: Job, pod: Pod) -> bool:
    return pod.index >= job.desired(pod.role) or failure.is_stale(job, pod)


def _has_chief(job: Job, observed: Observed) -> bool:
    return observed.get(Role.CHIEF) is not None or job.status.chief_uid is not None


def _stay(
    job: Job,
    phase: Phase,
    reason: Reason | None = None,
    message: str = "",
    culprit: Pod | None = None,
) -> Decision:
    return Decision(
        phase=phase,
        attempt=job.status.attempt,
        restarts=job.status.restarts,
        membership=present(job),
        reason=reason,
        message=message,
        culprit=culprit,
    )
