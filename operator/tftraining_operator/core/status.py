"""The whole status, computed from (job, observed, decision, facts, now) and nothing else."""

from dataclasses import replace
from datetime import datetime

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import (
    MAX_REPLACEMENTS,
    Condition,
    PodReplacement,
    Progress,
    Replicas,
    RoleStatus,
    Status,
)
from tftraining_operator.core import pod_metadata
from tftraining_operator.core.conditions import ConditionWriter, find, is_finished, is_true
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.history import has_run
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import worker_selector
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.pod_metadata import PodMetadata
from tftraining_operator.core.policies import cleanup
from tftraining_operator.core.policies.failure import newest_disruption
from tftraining_operator.core.policies.servers import FORGOTTEN_AFTER, replacements_in_a_row
from tftraining_operator.core.progress import (
    Report,
    best_of,
    checkpoint_of,
    evaluation_of,
    model_of,
    parse_report,
    progress_of,
)
from tftraining_operator.core.status_conditions import conditions, finished_conditions
from tftraining_operator.core.status_failures import failures
from tftraining_operator.core.status_headline import headline
from tftraining_operator.core.times import parse, rfc3339, seconds_since

_STATE_LIMIT = 32
_MESSAGE_LIMIT = 1000


def compute_status(
    job: Job,
    observed: Observed,
    decision: Decision,
    facts: Facts,
    now: datetime,
    *,
    trainer_image: str,
    given: PodMetadata = PodMetadata(),  # noqa: B008 - frozen
) -> Status:
    """Return the next status of an accepted job."""
    staying = _staying(job, observed, decision)
    counts = {"roles": _roles(job, staying), "worker_replicas": _workers(staying)}
    before = job.status
    if decision.phase is Phase.FINISHED:
        status = before.model_copy(update=counts)
        found = finished_conditions(job, facts, now)
        return status if found == before.conditions else _shown(status, found)
    status = before.model_copy(
        update={
            "observed_generation": job.meta.generation,
            "restarts": decision.restarts,
            "trainer_image": before.trainer_image or trainer_image,
            "pod_metadata": pod_metadata.stored(given),
            **counts,
            "worker_selector": worker_selector(job.name),
            "cluster_workers": decision.membership.size,
            "excluded_workers": list(decision.membership.excluded),
            "unavailable_workers": list(decision.membership.unavailable),
            "gang": decision.gang,
            "queue": decision.queue,
            "last_disruption": newest_disruption(job, observed),
            **_attempt(job, observed, decision),
            **_replaced(job, decision, now),
            **_times(job, decision, now, waits=facts.unanswered and not observed.pods),
            **_reported(job, observed, facts, now),
            **failures(job, observed, decision, facts, now),
        }
    )
    if decision.phase is not Phase.FAILED:
        released = before.replicas if before.chief_completion_time is not None else None
        status = status.model_copy(update={"replicas": _replicas(_roles(job, observed), released)})
    status = _shown(status, conditions(job, observed, decision, facts, now))
    return status.model_copy(
        update={"progress": _as_it_is(status), **_running_times(job, status, decision, now)}
    )


def rejected_status(
    job_status: Status,
    generation: int,
    reason: Reason,
    problem: str,
    now: datetime,
    *,
    suspended: bool = False,
) -> Status:
    """Return the status of a job that cannot be carried out as it is written."""
    writer = ConditionWriter(job_status.conditions, generation, now)
    writer.keep_all()
    writer.set(ConditionType.ACCEPTED, value=False, reason=reason, message=problem)
    if find(job_status.conditions, ConditionType.FINISHED) is None:
        writer.set(ConditionType.FINISHED, value=False, reason=Reason.NOT_FINISHED, message=problem)
    if suspended:
        message = "suspended by spec.runPolicy.suspend"
        writer.set(ConditionType.SUSPENDED, value=True, reason=Reason.SUSPENDED, message=message)
    elif is_true(job_status, ConditionType.SUSPENDED):
        # Its deadline counts from here.
        message = "the job is not suspended"
        writer.set(
            ConditionType.SUSPENDED, value=False, reason=Reason.NOT_SUSPENDED, message=message
        )
    return job_status.model_copy(
        update={
            "observed_generation": generation,
            "conditions": writer.result(),
            "state": job_status.state if is_finished(job_status) else reason.value,
            "message": problem[:_MESSAGE_LIMIT],
        }
    )


def held_status(job: Job, now: datetime) -> Status:
    """Return the status of a job that a newer operator started: nothing is touched.

    One that does not run says why in its message; the state stays, which says how it was left.
    """
    writer = ConditionWriter(job.status.conditions, job.meta.generation, now)
    writer.keep_all()
    writer.set(
        ConditionType.ACCEPTED, value=True, reason=Reason.UNSUPPORTED, message=job.unsupported
    )
    update: dict[str, object] = {"conditions": writer.result()}
    if not is_finished(job.status) and not is_true(job.status, ConditionType.RUNNING):
        update["message"] = job.unsupported[:_MESSAGE_LIMIT]
    return job.status.model_copy(update=update)


def refused_for_good(
    status: Status, generation: int, reason: Reason, message: str, now: datetime
) -> Status:
    """Return the status of a job that was not corrected in time: its end."""
    writer = ConditionWriter(status.conditions, generation, now)
    writer.keep_all()
    writer.set(ConditionType.FAILED, value=True, reason=reason, message=message)
    writer.set(ConditionType.FINISHED, value=True, reason=Reason.FAILED, message=message)
    return status.model_copy(
        update={
            "conditions": writer.result(),
            "completion_time": rfc3339(now),
            "state": ConditionType.FAILED.value,
            "message": message[:_MESSAGE_LIMIT],
        }
    )


def _shown(status: Status, found: list[Condition]) -> Status:
    """Return a status with these conditions, and the state and message that follow from them."""
    status = status.model_copy(update={"conditions": found})
    state, message = headline(status)
    shown = {"state": state[:_STATE_LIMIT], "message": message[:_MESSAGE_LIMIT]}
    return status.model_copy(update=shown)


def _attempt(job: Job, observed: Observed, decision: Decision) -> dict[str, object]:
    if decision.attempt != job.status.attempt:
        said: dict[str, object] = {"attempt": decision.attempt, "chief_uid": None}
        if decision.restart is not None:
            ran = job.status.first_running_time and job.status.interrupted_time is None
            said["last_restart"] = decision.restart
            said["failed_starts"] = 0 if ran else job.status.failed_starts + 1
        return said
    chief = observed.get(Role.CHIEF)
    if chief is None or chief.attempt != job.status.attempt:
        return {}
    return {"chief_uid": chief.uid}


def _as_it_is(status: Status) -> Progress | None:
    """Return how far a job is: one that is stalled has no speed, and nobody knows its end."""
    if status.progress is None or not is_true(status, ConditionType.STALLED):
        return status.progress
    unknown = {"steps_per_second": None, "eta_seconds": None, "eta_text": None}
    return status.progress.model_copy(update=unknown)


def _replaced(job: Job, decision: Decision, now: datetime) -> dict[str, object]:
    pods = [removal.pod for removal in decision.announced]
    if not pods:
        return {}
    names = {pod.name for pod in pods}
    kept = [
        known
        for known in job.status.replacements
        if known.pod not in names and now - parse(known.time) < FORGOTTEN_AFTER
    ]
    new = [
        PodReplacement(
            pod=pod.name,
            uid=pod.uid,
            count=replacements_in_a_row(job, pod, now) + 1,
            time=rfc3339(now),
        )
        for pod in pods
    ]
    return {"replacements": [*kept, *new][-MAX_REPLACEMENTS:]}


def _times(job: Job, decision: Decision, now: datetime, *, waits: bool) -> dict[str, object]:
    """Return when the job started and ended; one that `waits` for a webhook has not started."""
    before = job.status
    moments: dict[str, object] = {}
    if decision.phase in (Phase.SUSPENDED, Phase.QUEUED):
        if before.start_time is not None:
            spent = before.active_seconds + int(seconds_since(before.start_time, now))
            moments |= {"start_time": None, "active_seconds": spent}
    elif before.start_time is None and not waits:
        moments["start_time"] = rfc3339(now)
    if decision.chief_completed is not None:
        moments["chief_completion_time"] = rfc3339(decision.chief_completed)
    if decision.phase in (Phase.SUCCEEDED, Phase.FAILED):
        moments["completion_time"] = rfc3339(now)
    return moments


def _running_times(
    job: Job, status: Status, decision: Decision, now: datetime
) -> dict[str, object]:
    """Return when the training first ran, and since when it does not run any more."""
    if decision.phase is not Phase.ACTIVE:
        return {"interrupted_time": None}
    if is_true(status, ConditionType.RUNNING):
        first = status.first_running_time or rfc3339(now)
        return {"first_running_time": first, "interrupted_time": None}
    if status.interrupted_time is not None or not has_run(job.status):
        return {}
    began = status.first_running_time or status.start_time
    return {"first_running_time": began, "interrupted_time": rfc3339(now)}


def _reported(job: Job, observed: Observed, facts: Facts, now: datetime) -> dict[str, object]:
    said: dict[str, object] = {}
    chief = _report(observed, facts, Role.CHIEF)
    # That a chief only waits is not progress, nor a step back to 0.
    if chief is not None and chief.has_steps and _has_begun(observed, chief):
        said["progress"] = progress_of(chief, job.status.progress, now)
        said["repeated_examples"] = chief.repeated_examples or None
        # A chief that has failed reports for as long as its pod is there.
        pod = observed.get(Role.CHIEF)
        if pod is not None:
            said["progress_attempt"] = min(pod.attempt, job.status.attempt)
    if chief is not None and (checkpoint := checkpoint_of(chief)) is not None:
        said["last_checkpoint"] = checkpoint
    if chief is not None and (model := model_of(chief)) is not None:
        said["model"] = model
    if chief is not None and (best := best_of(chief)) is not None:
        said["best"] = best
    evaluator = _report(observed, facts, Role.EVALUATOR)
    if evaluator is not None:
        pod = observed.get(Role.EVALUATOR)
        final = pod is not None and pod.succeeded
        if (evaluation := evaluation_of(evaluator, final=final)) is not None:
            said["evaluation"] = evaluation
    return said


def _has_begun(observed: Observed, report: Report) -> bool:
    """Tell whether training has begun: a script may know its number of steps before it connects."""
    if report.step:
        return True
    chief = observed.get(Role.CHIEF)
    return chief is not None and chief.counts_as_ready


def _report(observed: Observed, facts: Facts, role: Role) -> Report | None:
    pod = observed.get(role)
    # What a pod reported as it ended is complete; the last poll may have missed its last steps.
    if pod is not None and pod.succeeded:
        last = parse_report(pod.termination_message)
        if last is not None:
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


def _staying(job: Job, observed: Observed, decision: Decision) -> Observed:
    """Return the pods without those that are deleted when the job ends.

    They are not counted from then on: each that is gone would be another write.
    """
    if decision.phase is Phase.EVALUATING:
        going = cleanup.servers_to_release(job, observed)
    elif decision.phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.FINISHED):
        going = [pod for pod in cleanup.pods_to_clean(job, observed) if pod.active]
    else:
        return observed
    names = {pod.name for pod in going}
    pods = {
        slot: pod
        for slot, pod in observed.pods.items()
        if pod.name not in names and not pod.deleting
    }
    return replace(observed, pods=pods)


def _replicas(roles: list[RoleStatus], released: Replicas | None) -> Replicas:
    """Return the counts as text; servers that were released stay as they were counted last."""
    live = Replicas(**{role.name: f"{role.ready}/{role.desired}" for role in roles})
    if released is None:
        return live
    return live.model_copy(update={"worker": released.worker, "ps": released.ps})


def _workers(observed: Observed) -> int:
    return sum(1 for pod in observed.of(Role.WORKER) if pod.active)
