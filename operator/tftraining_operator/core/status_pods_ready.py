"""The condition PodsReady: whether all pods are ready, or which one is not, and why."""

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.conditions import ConditionWriter, find, is_true
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import is_waiting
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import (
    NOT_PLACED,
    describe_cause,
    describe_predecessor,
    describe_queued,
    describe_undeletable,
    pods_not_ready,
    refused_objects,
    unplaced_since,
)
from tftraining_operator.core.naming import join_names
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.queueing import describe_waiting
from tftraining_operator.core.text import counted


def set_pods_ready(
    writer: ConditionWriter, job: Job, observed: Observed, decision: Decision, facts: Facts
) -> None:
    """Set PodsReady of an accepted job."""
    kind = ConditionType.PODS_READY
    total = sum(job.desired(role) for role in Role)
    queue, is_queued = decision.queue, decision.phase is Phase.QUEUED
    if decision.phase is Phase.SUSPENDED or (is_queued and not facts.undeletable):
        reason = Reason.QUEUED if is_queued else Reason.SUSPENDED
        left = counted(len(observed.pods), "pod")
        message = f"{left} left" if observed.pods else "the job has no pods"
        if is_queued and queue is not None:
            message = describe_waiting(job, queue, observed, facts)
        writer.set(kind, value=False, reason=reason, message=message)
        return
    if facts.undeletable:
        message = describe_undeletable(facts)
        writer.set(kind, value=False, reason=Reason.DELETION_REFUSED, message=message)
        return
    if decision.phase in (Phase.EVALUATING, Phase.SUCCEEDED):
        message = "workers and parameter servers are stopped"
        writer.set(kind, value=False, reason=Reason.CHIEF_SUCCEEDED, message=message)
        return
    waiting = pods_not_ready(job, observed, facts)
    waiting = [*refused_objects(job, decision.gang, observed, facts), *waiting]
    if not waiting:
        message = f"{total} of {total} pods are ready"
        writer.set(kind, value=True, reason=Reason.ALL_READY, message=message)
        return
    name, cause = waiting[0]
    gang, predecessor = decision.gang, describe_predecessor(job, observed, facts)
    # A pod that an earlier job is in the way of waits for that, and for no node.
    for_nodes = cause.reason in NOT_PLACED if cause is not None else not predecessor
    if gang is not None and is_waiting(gang) and for_nodes:
        message = describe_queued(gang, job, observed, facts, writer.now)
        if message:
            writer.set(kind, value=False, reason=Reason.QUEUED, message=message)
            return
    if cause is not None:
        more = sum(1 for _, other in waiting[1:] if other is not None)
        tail = f" (and {counted(more, 'more pod')})" if more else ""
        message = f"{name}: {describe_cause(cause)}{tail}"
        if cause.reason in NOT_PLACED and (since := unplaced_since(observed)) is not None:
            message = f"waiting since {since} for a node: {message}"
        writer.set(kind, value=False, reason=cause.reason, message=message)
        return
    names = join_names([name for name, _ in waiting])
    message = f"{total - len(waiting)} of {total} pods are ready; waiting for {names}"
    message = "; ".join(part for part in (message, predecessor) if part)
    # Which pods are ready changes many times at the start; the reason names the kind of wait.
    ran = job.status.first_running_time is not None
    reason = Reason.POD_REPLACED if ran else Reason.STARTING
    writer.set(kind, value=False, reason=reason, message=message)


def set_pods_of_finished(writer: ConditionWriter, job: Job, facts: Facts) -> None:
    """Set PodsReady of a finished job: only whether pods that are to go cannot be deleted."""
    kind = ConditionType.PODS_READY
    before = find(job.status.conditions, kind)
    if facts.undeletable:
        message = describe_undeletable(facts)
        writer.set(kind, value=False, reason=Reason.DELETION_REFUSED, message=message)
    elif before is not None and before.reason == Reason.DELETION_REFUSED:
        succeeded = is_true(job.status, ConditionType.SUCCEEDED)
        reason = Reason.CHIEF_SUCCEEDED if succeeded else Reason.FAILED
        writer.set(kind, value=False, reason=reason, message="no pod is left to delete")
