"""The conditions of a job.

A condition that was never true and need not be waited for is left out: Restarting, Stalled,
Suspended, Succeeded and Failed appear when they first say something. The longer ones have modules
of their own, status_pods_ready.py, status_running.py and status_stalled.py, and so have Isolated
and Protected: status_safeguards.py.
"""

from datetime import datetime

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Condition
from tftraining_operator.core.conditions import ConditionWriter, find, is_true
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import describe_undeletable
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.queueing import (
    describe_admitted,
    describe_waiting,
    waiting_reason,
    waits,
)
from tftraining_operator.core.status_pods_ready import set_pods_of_finished, set_pods_ready
from tftraining_operator.core.status_running import set_running
from tftraining_operator.core.status_safeguards import set_isolated, set_protected
from tftraining_operator.core.status_stalled import set_stalled


def conditions(
    job: Job,
    observed: Observed,
    decision: Decision,
    facts: Facts,
    now: datetime,
) -> list[Condition]:
    """Return the conditions of an accepted job."""
    writer = ConditionWriter(job.status.conditions, job.meta.generation, now)
    writer.set(ConditionType.ACCEPTED, value=True, reason=Reason.VALID, message="the spec is valid")
    _set_admitted(writer, job, observed, decision, facts)
    set_pods_ready(writer, job, observed, decision, facts)
    running = set_running(writer, job, observed, decision, facts)
    _set_restarting(writer, job, decision, running=running)
    set_stalled(writer, job, observed, decision, facts, running=running)
    _set_suspended(writer, job, decision, facts)
    _set_end(writer, decision)
    ends = decision.phase in (Phase.SUCCEEDED, Phase.FAILED)
    set_isolated(writer, job, observed, facts, ends=ends)
    trains = decision.phase is Phase.ACTIVE
    set_protected(writer, job, observed, facts, trains=trains)
    return writer.result()


def finished_conditions(job: Job, facts: Facts, now: datetime) -> list[Condition]:
    """Return the conditions of a finished job, of which only PodsReady may still change."""
    writer = ConditionWriter(job.status.conditions, job.meta.generation, now)
    writer.keep_all()
    set_pods_of_finished(writer, job, facts)
    return writer.result()


def _set_end(writer: ConditionWriter, decision: Decision) -> None:
    ends = {Phase.SUCCEEDED: ConditionType.SUCCEEDED, Phase.FAILED: ConditionType.FAILED}
    kind = ends.get(decision.phase)
    if kind is None or decision.reason is None:
        writer.set(
            ConditionType.FINISHED,
            value=False,
            reason=Reason.NOT_FINISHED,
            message="the job is not finished",
        )
        return
    writer.set(kind, value=True, reason=decision.reason, message=decision.message)
    writer.set(
        ConditionType.FINISHED,
        value=True,
        reason=Reason(decision.phase.value),
        message=decision.message,
    )


def _set_suspended(writer: ConditionWriter, job: Job, decision: Decision, facts: Facts) -> None:
    kind = ConditionType.SUSPENDED
    if decision.phase is Phase.SUSPENDED:
        reason, message = Reason.SUSPENDED, decision.message
        if facts.undeletable:
            reason, message = Reason.DELETION_REFUSED, describe_undeletable(facts)
        writer.set(kind, value=True, reason=reason, message=message)
    elif job.spec.run_policy.suspend and decision.phase is Phase.EVALUATING:
        message = "the chief has succeeded; the last evaluation is not suspended"
        writer.set(kind, value=False, reason=Reason.NOT_SUSPENDED, message=message)
    elif find(job.status.conditions, kind) is not None:
        writer.set(
            kind, value=False, reason=Reason.NOT_SUSPENDED, message="the job is not suspended"
        )


def _set_admitted(
    writer: ConditionWriter, job: Job, observed: Observed, decision: Decision, facts: Facts
) -> None:
    kind, queue = ConditionType.ADMITTED, decision.queue
    if queue is None:
        if find(job.status.conditions, kind) is not None:
            message = "the job is in no queue"
            writer.set(kind, value=False, reason=Reason.NOT_QUEUED, message=message)
        return
    if decision.phase is Phase.SUSPENDED:
        writer.set(kind, value=False, reason=Reason.SUSPENDED, message=decision.message)
    elif waits(queue):
        reason = waiting_reason(queue, observed)
        message = describe_waiting(job, queue, observed, facts)
        writer.set(kind, value=False, reason=reason, message=message)
    elif queue.admitted_time is not None:
        message = describe_admitted(job, queue, observed, facts)
        writer.set(kind, value=True, reason=Reason.ADMITTED, message=message)


def _set_restarting(
    writer: ConditionWriter, job: Job, decision: Decision, *, running: bool
) -> None:
    kind = ConditionType.RESTARTING
    before = find(job.status.conditions, kind)
    if decision.restart is not None:
        writer.set(
            kind, value=True, reason=decision.restart.reason, message=decision.restart.message
        )
    elif before is not None and is_true(job.status, kind) and not running:
        ended = decision.phase is not Phase.ACTIVE
        writer.set(kind, value=not ended, reason=before.reason, message=before.message)
    elif before is not None:
        writer.set(kind, value=False, reason=Reason.NOT_RESTARTING, message=before.message)
