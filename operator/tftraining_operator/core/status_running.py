"""The condition Running: whether the job trains, and what it does or lacks."""

from collections.abc import Mapping

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.conditions import ConditionWriter, find, is_true
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import (
    describe_problem,
    describe_unreachable,
    pods_not_ready,
)
from tftraining_operator.core.naming import join_names, pod_name, pod_of_task
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.policies.failure import is_stale
from tftraining_operator.core.policies.reachability import SILENT_AT_START_SECONDS
from tftraining_operator.core.progress import Report
from tftraining_operator.core.roles import traits

_ACTIVITIES: Mapping[str | None, str] = {
    "callbacks": "the chief is running callbacks; training continues after them",
    "input": "the workers are reading the data up to where training continues",
    "checkpoint": "the chief is saving a checkpoint; training continues after it",
    "validation": "the chief is validating the model; training continues after it",
    "export": "the chief is exporting the trained model",
}
"""What is said of a chief that does something else than steps."""


def set_running(
    writer: ConditionWriter, job: Job, observed: Observed, decision: Decision, facts: Facts
) -> bool:
    """Set Running of an accepted job, and return it."""
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
    problem = no_workers(job, observed, facts) if running else ""
    report = facts.reports.get(Role.CHIEF)
    reason = Reason.CHIEF_NOT_READY
    message = "the chief is not ready"
    if problem:
        running, reason, message = False, Reason.NO_WORKERS, problem
    elif running and decision.suspicion:
        message = f"{decision.suspicion}{_unreachable(job, observed, report)}"
        reason = Reason.TRAINING
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
        names = join_names([pod_of_task(job.name, task) for task in report.waiting_for])
        unreachable = _unreachable(job, observed, report)
        reason = Reason.SERVERS_UNREACHABLE if unreachable else reason
        message = f"the chief is waiting for {names}{unreachable}"
    writer.set(kind, value=running, reason=reason, message=message)
    return running


def _unreachable(job: Job, observed: Observed, report: Report | None) -> str:
    """Return why the chief does not reach servers, after a semicolon; "" if it may still do so."""
    # At a start names and ports appear one by one.
    limit = SILENT_AT_START_SECONDS
    found = describe_unreachable(job, observed, report, for_seconds=limit)
    return f"; {found}" if found else ""


def no_workers(job: Job, observed: Observed, facts: Facts) -> str:
    """Say why no worker is left to train, "" if there is one or one is about to come."""
    if not traits(job.spec.strategy, Role.WORKER).serves:
        return ""
    indexes = job.members(Role.WORKER)
    pods = [observed.get(Role.WORKER, index) for index in indexes]
    if any(pod is not None and pod.counts_as_ready for pod in pods):
        return ""
    names = {pod_name(job.name, Role.WORKER, index) for index in indexes}
    for name, cause in pods_not_ready(job, observed, facts):
        if name in names and cause is not None:
            return f"no worker is available: {describe_problem(name, cause)}"
    return ""
