"""The condition Stalled: whether no step is completed, and which pods may be the cause."""

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.conditions import ConditionWriter, find, is_true
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import describe_unreachable, pods_not_ready
from tftraining_operator.core.naming import join_names, pod_of_task
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.policies import stall
from tftraining_operator.core.times import rfc3339


def set_stalled(
    writer: ConditionWriter,
    job: Job,
    observed: Observed,
    decision: Decision,
    facts: Facts,
    *,
    running: bool,
) -> None:
    """Set Stalled of an accepted job; `running` is what Running was just set to."""
    kind = ConditionType.STALLED
    before = find(job.status.conditions, kind)
    if decision.restart is not None and decision.reason is Reason.STALLED:
        writer.set(kind, value=True, reason=Reason.NO_NEW_STEP, message=decision.message)
        return
    if not running:
        if before is not None:
            still = is_true(job.status, kind) and decision.phase is Phase.ACTIVE
            reason = Reason.NO_NEW_STEP if still else Reason.CHIEF_NOT_READY
            message = before.message if still else "the chief does not run"
            writer.set(kind, value=still, reason=reason, message=message)
        return
    age = stall.newest_step(job, observed, facts, writer.now)
    if not age.is_known:
        if age.awaited_until is not None and before is not None:
            writer.keep(kind)
        elif age.awaited_until is None and facts.asked_since is not None:
            message = "the chief reports no progress, so a stall cannot be detected"
            writer.set(kind, value=None, reason=Reason.NO_REPORT, message=message)
        return
    report = facts.reports.get(Role.CHIEF)
    if not stall.is_silent(report, age):
        if before is not None:
            reason = Reason.STEPS_COMPLETED if age.completed else Reason.TRAINING
            message = "all steps are completed" if age.completed else "steps are completing"
            writer.set(kind, value=False, reason=reason, message=message)
        return
    missing = [name for name, _ in pods_not_ready(job, observed, facts)]
    missing += [pod_of_task(job.name, peer.task) for peer in report.unreachable] if report else []
    known = job.status.progress
    newest = (known.last_step_time or known.updated_at) if known is not None and report else None
    message = f"no new step since {newest or rfc3339(age.since or writer.now)}" + (
        f"; unavailable: {join_names(sorted(set(missing)))}"
        if missing
        else ", though all pods are ready"
    )
    if unreachable := describe_unreachable(job, observed, report):
        message = f"{message}; {unreachable}"
    writer.set(kind, value=True, reason=Reason.NO_NEW_STEP, message=message)
