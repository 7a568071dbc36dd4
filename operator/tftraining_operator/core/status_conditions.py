"""The conditions of a job, and the one word and sentence that people are shown of them.

A condition that was never true and need not be waited for is left out: Restarting, Stalled,
Suspended, Succeeded and Failed appear when they first say something.
"""

from collections.abc import Mapping
from datetime import datetime

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Condition, Status
from tftraining_operator.core.conditions import ConditionWriter, find, is_true
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import is_waiting
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import (
    NOT_PLACED,
    describe_problem,
    describe_queued,
    pods_not_ready,
    refused_objects,
)
from tftraining_operator.core.naming import join_names, pod_of_task
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.policies import isolation, stall
from tftraining_operator.core.policies.failure import is_stale
from tftraining_operator.core.queueing import (
    describe_admitted,
    describe_waiting,
    waiting_reason,
    waits,
)
from tftraining_operator.core.roles import traits
from tftraining_operator.core.times import rfc3339

_ROUTINE = frozenset({Reason.STARTING, Reason.POD_REPLACED, Reason.ALL_READY})
"""Reasons of PodsReady that name no problem."""

_ACTIVITIES: Mapping[str | None, str] = {
    "callbacks": "the chief is running callbacks; training continues after them",
    "input": "the workers are reading the data up to where training continues",
    "checkpoint": "the chief is saving a checkpoint; training continues after it",
    "validation": "the chief is validating the model; training continues after it",
    "export": "the chief is exporting the trained model",
}
"""What is said of a chief that does something else than steps."""


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
    _set_pods_ready(writer, job, observed, decision, facts)
    running = _set_running(writer, job, observed, decision, facts)
    _set_restarting(writer, job, decision, running=running)
    _set_stalled(writer, job, observed, decision, facts, running=running)
    _set_suspended(writer, job, decision, facts)
    _set_end(writer, decision)
    _set_isolated(writer, job, observed, facts)
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


def _set_isolated(writer: ConditionWriter, job: Job, observed: Observed, facts: Facts) -> None:
    kind = ConditionType.ISOLATED
    cause = isolation.problem(job, observed, facts)
    if cause is not None:
        what = "no pod is created" if isolation.is_required(job) else "any pod can connect to them"
        message = f"the pods have no NetworkPolicy, so {what}: {cause.message}"
        writer.set(kind, value=False, reason=cause.reason, message=message)
    elif find(job.status.conditions, kind) is None:
        return
    elif isolation.policy(job, facts) is NetworkPolicy.OPEN:
        message = "any pod can connect to the pods of this job"
        writer.set(kind, value=False, reason=Reason.OPEN, message=message)
    elif observed.network_policy is not None:
        message = "the pods have a NetworkPolicy"
        writer.set(kind, value=True, reason=Reason.ISOLATED, message=message)
    else:
        writer.keep(kind)


def _set_suspended(writer: ConditionWriter, job: Job, decision: Decision, facts: Facts) -> None:
    kind = ConditionType.SUSPENDED
    if decision.phase is Phase.SUSPENDED:
        reason, message = Reason.SUSPENDED, decision.message
        if facts.undeletable:
            reason, message = Reason.DELETION_REFUSED, _describe_undeletable(facts)
        writer.set(kind, value=True, reason=reason, message=message)
    elif job.spec.run_policy.suspend and decision.phase is Phase.EVALUATING:
        message = "the chief has succeeded; the last evaluation is not suspended"
        writer.set(kind, value=False, reason=Reason.NOT_SUSPENDED, message=message)
    elif find(job.status.conditions, kind) is not None:
        writer.set(
            kind, value=False, reason=Reason.NOT_SUSPENDED, message="the job is not suspended"
        )


def _describe_undeletable(facts: Facts) -> str:
    name, cause = next(iter(facts.undeletable.items()))
    more = len(facts.undeletable) - 1
    tail = f" (and {more} more)" if more else ""
    return f"could not delete pod {name}{tail}: {cause.message}"


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
        message = describe_waiting(queue, observed, facts)
        writer.set(kind, value=False, reason=reason, message=message)
    elif queue.admitted_time is not None:
        message = describe_admitted(job, queue)
        writer.set(kind, value=True, reason=Reason.ADMITTED, message=message)


def _set_pods_ready(
    writer: ConditionWriter, job: Job, observed: Observed, decision: Decision, facts: Facts
) -> None:
    kind = ConditionType.PODS_READY
    total = sum(job.desired(role) for role in Role)
    queue, is_queued = decision.queue, decision.phase is Phase.QUEUED
    if decision.phase is Phase.SUSPENDED or (is_queued and not facts.undeletable):
        reason = Reason.QUEUED if is_queued else Reason.SUSPENDED
        message = f"{len(observed.pods)} pods left" if observed.pods else "the job has no pods"
        if is_queued and queue is not None:
            message = describe_waiting(queue, observed, facts)
        writer.set(kind, value=False, reason=reason, message=message)
        return
    if decision.phase in (Phase.EVALUATING, Phase.SUCCEEDED):
        message = "workers and parameter servers are stopped"
        writer.set(kind, value=False, reason=Reason.CHIEF_SUCCEEDED, message=message)
        return
    if facts.undeletable:
        message = _describe_undeletable(facts)
        writer.set(kind, value=False, reason=Reason.DELETION_REFUSED, message=message)
        return
    waiting = pods_not_ready(job, observed, facts)
    waiting = [*refused_objects(job, decision.gang, observed, facts), *waiting]
    if not waiting:
        message = f"{total} of {total} pods are ready"
        writer.set(kind, value=True, reason=Reason.ALL_READY, message=message)
        return
    name, cause = waiting[0]
    gang = decision.gang
    if gang is not None and is_waiting(gang) and (cause is None or cause.reason in NOT_PLACED):
        message = describe_queued(gang, job, observed, facts, writer.now)
        if message:
            writer.set(kind, value=False, reason=Reason.QUEUED, message=message)
            return
    if cause is not None:
        more = sum(1 for _, other in waiting[1:] if other is not None)
        tail = f" (and {more} more)" if more else ""
        message = f"{describe_problem(name, cause)}{tail}"
        writer.set(kind, value=False, reason=cause.reason, message=message)
        return
    names = join_names([name for name, _ in waiting])
    message = f"{total - len(waiting)} of {total} pods are ready; waiting for {names}"
    # Which pods are ready changes many times at the start; the reason names the kind of wait.
    ran = job.status.first_running_time is not None
    reason = Reason.POD_REPLACED if ran else Reason.STARTING
    writer.set(kind, value=False, reason=reason, message=message)


def _set_running(
    writer: ConditionWriter, job: Job, observed: Observed, decision: Decision, facts: Facts
) -> bool:
    kind = ConditionType.RUNNING
    chief = observed.get(Role.CHIEF)
    before = find(job.status.conditions, kind)
    was_running = before is not None and is_true(job.status, kind)
    attached = (
        decision.phase is Phase.ACTIVE
        and decision.restart is None
        and chief is not None
        and chief.phase == "Running"
        and not chief.deleting
        and not is_stale(job, chief)
    )
    # A chief too busy to answer one probe still trains: only its end ends Running.
    running = attached and ((chief is not None and chief.ready) or was_running)
    problem = _no_workers(job, observed, facts) if running else ""
    report = facts.reports.get(Role.CHIEF)
    reason = Reason.CHIEF_NOT_READY
    message = "the chief is not ready"
    if problem:
        running, reason, message = False, Reason.NO_WORKERS, problem
    elif running and decision.suspicion:
        reason, message = Reason.TRAINING, decision.suspicion
    elif running and report is not None:
        reason, message = Reason.TRAINING, _ACTIVITIES.get(report.activity, "the chief trains")
    elif running and was_running and before is not None and before.reason == Reason.TRAINING:
        # An operator that has just started has no report yet: that is no news of the job.
        reason, message = Reason.TRAINING, before.message
    elif running:
        reason, message = Reason.TRAINING, "the chief is ready; it has not reported progress"
    elif decision.phase is not Phase.ACTIVE:
        reason, message = Reason(decision.phase.value), decision.message
    elif decision.restart is not None:
        reason, message = Reason.RESTARTING, decision.message
    elif report is not None and report.waiting_for:
        message = f"the chief is waiting for {join_names(report.waiting_for)}"
    writer.set(kind, value=running, reason=reason, message=message)
    return running


def _no_workers(job: Job, observed: Observed, facts: Facts) -> str:
    """Say why no worker is left to train, "" if there is one or one is about to come."""
    if not traits(job.spec.strategy, Role.WORKER).serves:
        return ""
    indexes = job.members(Role.WORKER)
    pods = [observed.get(Role.WORKER, index) for index in indexes]
    if any(pod is not None and pod.counts_as_ready for pod in pods):
        return ""
    names = {f"{job.name}-{Role.WORKER}-{index}" for index in indexes}
    for name, cause in pods_not_ready(job, observed, facts):
        if name in names and cause is not None:
            return f"no worker is available: {describe_problem(name, cause)}"
    return ""


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


def _set_stalled(
    writer: ConditionWriter,
    job: Job,
    observed: Observed,
    decision: Decision,
    facts: Facts,
    *,
    running: bool,
) -> None:
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
    silent = stall.silence_deadline(facts.reports.get(Role.CHIEF), age)
    if silent is None or writer.now < silent:
        if before is not None:
            reason = Reason.STEPS_COMPLETED if age.completed else Reason.TRAINING
            message = "all steps are completed" if age.completed else "steps are completing"
            writer.set(kind, value=False, reason=reason, message=message)
        return
    missing = [name for name, _ in pods_not_ready(job, observed, facts)]
    report = facts.reports.get(Role.CHIEF)
    missing += [pod_of_task(job.name, peer.task) for peer in report.unreachable] if report else []
    known = job.status.progress
    newest = (known.last_step_time or known.updated_at) if known is not None and report else None
    message = f"no new step since {newest or rfc3339(age.since or writer.now)}" + (
        f"; unavailable: {join_names(sorted(set(missing)))}"
        if missing
        else ", though all pods are ready"
    )
    writer.set(kind, value=True, reason=Reason.NO_NEW_STEP, message=message)


def headline(status: Status) -> tuple[str, str]:
    """Return the one word and the sentence for people, derived from the conditions."""
    for kind in (ConditionType.FAILED, ConditionType.SUCCEEDED, ConditionType.SUSPENDED):
        found = find(status.conditions, kind)
        if found is not None and is_true(status, kind):
            return kind.value, found.message
    running = find(status.conditions, ConditionType.RUNNING)
    if status.chief_completion_time is not None:
        return "Evaluating", running.message if running else ""
    pods = find(status.conditions, ConditionType.PODS_READY)
    if running is not None and is_true(status, ConditionType.RUNNING):
        hurt = pods is not None and not is_true(status, ConditionType.PODS_READY)
        return "Running", pods.message if pods and hurt else running.message
    return _not_running(status, pods, running)


def _not_running(
    status: Status, pods: Condition | None, running: Condition | None
) -> tuple[str, str]:
    restarting = find(status.conditions, ConditionType.RESTARTING)
    if restarting is not None and is_true(status, ConditionType.RESTARTING):
        return "Restarting", restarting.message
    if running is not None and running.reason == Reason.NO_WORKERS:
        return running.reason, running.message
    if pods is not None and pods.reason not in _ROUTINE:
        return pods.reason, pods.message
    return "Starting", pods.message if pods else ""
