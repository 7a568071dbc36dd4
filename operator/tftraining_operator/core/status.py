"""The whole status, computed from (job, observed, decision, reports, now) and nothing else."""

from datetime import datetime

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Replicas, RoleStatus, Status
from tftraining_operator.core.conditions import ConditionWriter, find, is_finished
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import worker_selector
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.progress import (
    Report,
    checkpoint_of,
    evaluation_of,
    parse_report,
    progress_of,
)
from tftraining_operator.core.status_conditions import conditions, headline
from tftraining_operator.core.status_failures import failures, newest_disruption
from tftraining_operator.core.times import rfc3339, seconds_since

_STATE_LIMIT = 32
_MESSAGE_LIMIT = 1000


def compute_status(
    job: Job, observed: Observed, decision: Decision, facts: Facts, now: datetime
) -> Status:
    """Return the next status of an accepted job."""
    if decision.phase is Phase.FINISHED:
        return job.status.model_copy(
            update={"roles": _roles(job, observed), "worker_replicas": _workers(observed)}
        )
    before = job.status
    status = before.model_copy(
        update={
            "observed_generation": job.meta.generation,
            "attempt": decision.attempt,
            "restarts": decision.restarts,
            "roles": _roles(job, observed),
            "worker_replicas": _workers(observed),
            "worker_selector": worker_selector(job.name),
            "excluded_workers": list(decision.membership.excluded),
            "unavailable_workers": list(decision.membership.away),
            "last_disruption": newest_disruption(job, observed),
            **_clock(job, decision, now),
            **_reported(job, observed, facts, now),
            **failures(job, observed, decision, facts, now),
        }
    )
    if decision.phase is not Phase.FAILED:
        released = before.replicas if before.chief_completion_time is not None else None
        status = status.model_copy(update={"replicas": _replicas(status.roles, released)})
    status = status.model_copy(
        update={
            "conditions": conditions(
                job, observed, decision, facts, progress=status.progress, now=now
            )
        }
    )
    state, message = headline(status)
    shown = {"state": state[:_STATE_LIMIT], "message": message[:_MESSAGE_LIMIT]}
    return status.model_copy(update=shown)


def rejected_status(
    job_status: Status, generation: int, reason: str, problem: str, now: datetime
) -> Status:
    """Return the status of a job that cannot be carried out as it is written."""
    writer = ConditionWriter(job_status.conditions, generation, now)
    writer.set(ConditionType.ACCEPTED, value=False, reason=reason, message=problem)
    for kind in ConditionType:
        if kind is ConditionType.ACCEPTED:
            continue
        found = find(job_status.conditions, kind)
        writer.set(
            kind,
            value=bool(found and found.status == "True"),
            reason=found.reason if found else "NotAccepted",
            message=found.message if found else "",
        )
    return job_status.model_copy(
        update={
            "observed_generation": generation,
            "conditions": writer.result(),
            "state": job_status.state if is_finished(job_status) else reason,
            "message": problem[:_MESSAGE_LIMIT],
        }
    )


def _clock(job: Job, decision: Decision, now: datetime) -> dict[str, object]:
    before = job.status
    moments: dict[str, object] = {}
    if decision.phase is Phase.SUSPENDED:
        if before.start_time is not None:
            spent = before.active_seconds + int(seconds_since(before.start_time, now))
            moments |= {"start_time": None, "active_seconds": spent}
    elif before.start_time is None:
        moments["start_time"] = rfc3339(now)
    if decision.chief_completed is not None:
        moments["chief_completion_time"] = rfc3339(decision.chief_completed)
    if decision.phase in (Phase.SUCCEEDED, Phase.FAILED):
        moments["completion_time"] = rfc3339(now)
    return moments


def _reported(job: Job, observed: Observed, facts: Facts, now: datetime) -> dict[str, object]:
    said: dict[str, object] = {}
    chief = _report(observed, facts, Role.CHIEF)
    # A chief that only waits has step 0; that is not progress, nor a step back to 0.
    if chief is not None and (chief.step or chief.total_steps):
        said["progress"] = progress_of(chief, job.status.progress, now)
    if chief is not None and (checkpoint := checkpoint_of(chief)) is not None:
        said["last_checkpoint"] = checkpoint
    evaluator = _report(observed, facts, Role.EVALUATOR)
    if evaluator is not None:
        pod = observed.get(Role.EVALUATOR)
        final = pod is not None and pod.succeeded
        if (evaluation := evaluation_of(evaluator, final=final)) is not None:
            said["evaluation"] = evaluation
    return said


def _report(observed: Observed, facts: Facts, role: Role) -> Report | None:
    pod = observed.get(role)
    # What a pod said as it ended is complete; the last poll may have missed its last steps.
    if (
        pod is not None
        and pod.succeeded
        and (last := parse_report(pod.termination_message)) is not None
    ):
        return last
    return facts.reports.get(role)


def _roles(job: Job, observed: Observed) -> list[RoleStatus]:
    return [
        RoleStatus(
            name=role.value,
            desired=job.desired(role),
            ready=sum(1 for p in pods if p.counts_as_ready),
            active=sum(1 for p in pods if p.active),
            succeeded=sum(1 for p in pods if p.succeeded),
            failed=sum(1 for p in pods if p.failed),
        )
        for role in (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)
        if (pods := observed.of(role)) or job.desired(role)
    ]


def _replicas(roles: list[RoleStatus], released: Replicas | None) -> Replicas:
    """Return the counts as text; servers that were released stay as they were counted last."""
    live = Replicas(**{role.name: f"{role.ready}/{role.desired}" for role in roles})
    if released is None:
        return live
    return live.model_copy(update={"worker": released.worker, "ps": released.ps})


def _workers(observed: Observed) -> int:
    return sum(1 for pod in observed.of(Role.WORKER) if pod.active)
