"""The conditions of a job, and the one word and sentence that people are shown of them."""

from datetime import datetime

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Condition, Progress, Status
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.conditions import ConditionWriter, find, is_true
from tftraining_operator.core.decision import Decision, Phase, describe_exit
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import join_names, pod_of_task
from tftraining_operator.core.observed import Observed, slots
from tftraining_operator.core.policies.deadlines import silence_deadline
from tftraining_operator.core.policies.failure import is_stale
from tftraining_operator.core.progress import last_step
from tftraining_operator.core.times import rfc3339


def conditions(
    job: Job,
    observed: Observed,
    decision: Decision,
    facts: Facts,
    *,
    progress: Progress | None,
    now: datetime,
) -> list[Condition]:
    """Return all conditions of an accepted job."""
    writer = ConditionWriter(job.status.conditions, job.meta.generation, now)
    writer.set(
        ConditionType.ACCEPTED, value=True, reason="Valid", message="the spec can be carried out"
    )
    _set_pods_ready(writer, job, observed, decision, facts)
    running = _set_running(writer, job, observed, decision, facts)
    _set_restarting(writer, job, decision, running=running)
    if decision.restarts_attempt(job) or not running:
        _set_stalled_by_restart(writer, job, decision)
    else:
        _set_stalled(writer, job, observed, facts, progress)
    suspended = decision.phase is Phase.SUSPENDED
    writer.set(
        ConditionType.SUSPENDED,
        value=suspended,
        reason="Suspended" if suspended else "NotSuspended",
        message="spec.runPolicy.suspend is true; the checkpoint stays" if suspended else "",
    )
    ends = {
        ConditionType.SUCCEEDED: decision.phase is Phase.SUCCEEDED,
        ConditionType.FAILED: decision.phase is Phase.FAILED,
    }
    finished = any(ends.values())
    for kind, value in ends.items():
        writer.set(
            kind,
            value=value,
            reason=decision.reason if value else ("Finished" if finished else "NotFinished"),
            message=decision.message if value else "",
        )
    writer.set(
        ConditionType.FINISHED,
        value=finished,
        reason=decision.phase.value if finished else "NotFinished",
        message=decision.message if finished else "",
    )
    return writer.result()


def _set_pods_ready(
    writer: ConditionWriter, job: Job, observed: Observed, decision: Decision, facts: Facts
) -> None:
    kind = ConditionType.PODS_READY
    total = sum(job.desired(role) for role in Role)
    if decision.phase is Phase.SUSPENDED:
        writer.set(kind, value=False, reason="Suspended", message="the job has no pods")
        return
    if decision.phase in (Phase.EVALUATING, Phase.SUCCEEDED):
        writer.set(kind, value=False, reason="ChiefSucceeded", message="the servers are released")
        return
    waiting = pods_not_ready(job, observed, facts)
    if not waiting:
        message = f"{total} of {total} pods are ready"
        writer.set(kind, value=True, reason="AllReady", message=message)
        return
    name, cause = waiting[0]
    if cause is not None:
        more = sum(1 for _, other in waiting[1:] if other is not None)
        tail = f" (and {more} more in trouble)" if more else ""
        message = f"{name}: {cause.reason}: {cause.message or describe_exit(cause)}{tail}"
        writer.set(kind, value=False, reason=cause.reason, message=message)
        return
    names = join_names([name for name, _ in waiting])
    message = f"{total - len(waiting)} of {total} pods are ready; waiting for {names}"
    before = find(job.status.conditions, kind)
    # Which pods are ready changes many times at the start; the reason names the kind of wait.
    reason = "PodReplaced" if before is not None and before.reason == "AllReady" else "Starting"
    if before is not None and before.reason == "PodReplaced":
        reason = "PodReplaced"
    writer.set(kind, value=False, reason=reason, message=message)


def _set_running(
    writer: ConditionWriter, job: Job, observed: Observed, decision: Decision, facts: Facts
) -> bool:
    chief = observed.get(Role.CHIEF)
    attached = (
        decision.phase is Phase.ACTIVE
        and not decision.restarts_attempt(job)
        and chief is not None
        and chief.phase == "Running"
        and not chief.deleting
        and not is_stale(job, chief)
    )
    # A chief too busy to answer one probe still trains: only its end ends Running.
    running = attached and (
        (chief is not None and chief.ready) or is_true(job.status, ConditionType.RUNNING)
    )
    reason, message = "ChiefNotReady", "the chief is not connected to every server yet"
    if running:
        reason, message = "ChiefReady", "the chief is connected to every server and trains"
    elif decision.phase is not Phase.ACTIVE:
        reason, message = decision.phase.value, decision.message
    elif decision.restarts_attempt(job):
        reason, message = "Restarting", decision.message
    elif (report := facts.reports.get(Role.CHIEF)) is not None and report.waiting_for:
        message = f"the chief waits for {join_names(report.waiting_for)}"
    writer.set(ConditionType.RUNNING, value=running, reason=reason, message=message)
    return running


def _set_restarting(
    writer: ConditionWriter, job: Job, decision: Decision, *, running: bool
) -> None:
    kind = ConditionType.RESTARTING
    before = find(job.status.conditions, kind)
    if decision.restarts_attempt(job):
        writer.set(kind, value=True, reason=decision.reason, message=decision.message)
    elif before is not None and is_true(job.status, kind) and not running:
        ended = decision.phase is not Phase.ACTIVE
        writer.set(kind, value=not ended, reason=before.reason, message=before.message)
    else:
        writer.set(
            kind, value=False, reason="NotRestarting", message=before.message if before else ""
        )


def _set_stalled_by_restart(writer: ConditionWriter, job: Job, decision: Decision) -> None:
    kind = ConditionType.STALLED
    if decision.restarts_attempt(job) and decision.reason == "Stalled":
        writer.set(kind, value=True, reason="NoNewStep", message=decision.message)
    elif is_true(job.status, kind) and decision.phase is Phase.ACTIVE:
        before = find(job.status.conditions, kind)
        writer.set(kind, value=True, reason="NoNewStep", message=before.message if before else "")
    else:
        writer.set(kind, value=False, reason="NotStalled", message="")


def _set_stalled(
    writer: ConditionWriter,
    job: Job,
    observed: Observed,
    facts: Facts,
    progress: Progress | None,
) -> None:
    silent = silence_deadline(job, progress)
    if progress is None or silent is None or writer.now < silent:
        writer.set(ConditionType.STALLED, value=False, reason="NotStalled", message="")
        return
    missing = [name for name, _ in pods_not_ready(job, observed, facts)]
    report = facts.reports.get(Role.CHIEF)
    missing += [pod_of_task(job.name, peer.task) for peer in report.unreachable] if report else []
    message = f"no new step since {rfc3339(last_step(progress))}" + (
        f"; not there: {join_names(sorted(set(missing)))}"
        if missing
        else ", though all pods are ready"
    )
    writer.set(ConditionType.STALLED, value=True, reason="NoNewStep", message=message)


def pods_not_ready(job: Job, observed: Observed, facts: Facts) -> list[tuple[str, Cause | None]]:
    """Return (pod name, cause if known) of every wanted pod that is not ready; causes first."""
    found: list[tuple[str, Cause | None]] = []
    for role, index, name in slots(job):
        pod = observed.get(role, index)
        if pod is not None and pod.counts_as_ready:
            continue
        found.append((name, facts.refused.get(name) or (pod.startup_problem if pod else None)))
    return sorted(found, key=lambda item: item[1] is None)


def headline(status: Status) -> tuple[str, str]:
    """Return the one word and the sentence for people, derived from the conditions."""
    for kind in (ConditionType.FAILED, ConditionType.SUCCEEDED, ConditionType.SUSPENDED):
        found = find(status.conditions, kind)
        if found is not None and is_true(status, kind):
            return kind.value, found.message
    if status.chief_completion_time is not None:
        running = find(status.conditions, ConditionType.RUNNING)
        return "Evaluating", running.message if running else ""
    pods = find(status.conditions, ConditionType.PODS_READY)
    running = find(status.conditions, ConditionType.RUNNING)
    if is_true(status, ConditionType.RUNNING):
        hurt = pods is not None and not is_true(status, ConditionType.PODS_READY)
        return "Running", pods.message if pods and hurt else (running.message if running else "")
    restarting = find(status.conditions, ConditionType.RESTARTING)
    if restarting is not None and is_true(status, ConditionType.RESTARTING):
        return "Restarting", restarting.message
    if pods is not None and pods.reason not in ("Starting", "PodReplaced", "AllReady"):
        return pods.reason, pods.message
    return "Starting", pods.message if pods else ""
