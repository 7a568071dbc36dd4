"""The one write that a pass makes to the Workloads of a job: what Kueue has to know.

core/decide.py asks by where the job stands; reconcile/applier.py makes the call. Each follows from
job, Workload and pods, so that it is made again when the operator was ended before it.
"""

from datetime import datetime
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import QueueStatus
from tftraining_operator.api.types import CleanPodPolicy
from tftraining_operator.core import extension_changes, extensions
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.desired import owner_reference
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import scheduling
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import job_labels
from tftraining_operator.core.observed import Observed, owned_by
from tftraining_operator.core.queueing import wants_priority
from tftraining_operator.core.schedulers import kueue, kueue_status
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.workload_body import (
    WorkloadChange,
    job_counts,
    job_spec,
    may_write,
    new_workload,
    respecified,
)

_Object = dict[str, Any]


def while_waiting(
    job: Job, observed: Observed, queue: QueueStatus, facts: Facts, now: datetime
) -> WorkloadChange | None:
    """Return the write that a job needs to be admitted, or to give back quota that was taken.

    Raises InvalidTemplateError.
    """
    workload, stored = observed.workload, job.status.queue
    admitted = stored is not None and stored.admitted_time is not None
    if observed.pods or job.status.chief_uid is not None or admitted:
        # What has ended is stored first: after this write Kueue may admit the job again at once.
        return None
    change = extension_changes.discarded(observed, facts, now)
    if change is not None or not _may_write(job, facts, now):
        return change
    if workload is None:
        return _created(job, queue, facts)
    if workload.deleting or workload.finished:
        return None
    if workload.holds_quota:
        given_back = kueue_status.released(workload, now) if workload.evicted else None
        return WorkloadChange(workload, status=given_back) if given_back else None
    return _respecified(job, workload, queue, facts)


def while_admitted(
    job: Job, observed: Observed, facts: Facts, now: datetime
) -> WorkloadChange | None:
    """Return the write that tells Kueue of the pods of a job that trains, or evaluates."""
    workload = observed.workload
    if job.status.queue is None:
        return _discarded(job, observed, facts, now)
    if workload is None or not workload.admitted:
        return None
    if _may_write(job, facts, now):
        change = _while_admitted(job, workload, observed, facts, now)
        if change is not None:
            return change
    if job.status.chief_completion_time is None:
        return extension_changes.while_training(job, observed, facts, now)
    if any(pod.active for pod in observed.of(Role.WORKER)):
        return None
    return extension_changes.discarded(observed, facts, now)


def _while_admitted(
    job: Job, workload: Workload, observed: Observed, facts: Facts, now: datetime
) -> WorkloadChange | None:
    priority = facts.queue.priority
    if priority is not None and wants_priority(job, workload):
        return WorkloadChange(workload, body={"spec": kueue.priority_spec(priority)})
    evaluates = job.status.chief_completion_time is not None
    unneeded = _unneeded(job, workload, observed, evaluates=evaluates)
    ready = evaluates or _are_ready(job, workload, observed)
    status = kueue_status.observed_pods(workload, unneeded, now, ready=ready)
    return WorkloadChange(workload, status=status) if status else None


def at_the_end(job: Job, observed: Observed, facts: Facts, now: datetime) -> WorkloadChange | None:
    """Return the write that gives back the quota of a finished job."""
    keeps = job.spec.run_policy.clean_pod_policy is CleanPodPolicy.NONE
    if not keeps and any(pod.active for pod in observed.pods.values()):
        return None
    if (change := extension_changes.discarded(observed, facts, now)) is not None:
        return change
    workload = observed.workload
    if workload is None or workload.deleting or workload.finished:
        return None
    if not _may_write(job, facts, now):
        return None
    well = is_true(job.status, keys.ConditionType.SUCCEEDED)
    message = job.status.message or "the job has finished"
    return WorkloadChange(workload, status=kueue_status.ended(workload, message, now, well=well))


def adoption(job: Job, observed: Observed, facts: Facts, now: datetime) -> WorkloadChange | None:
    """Return the write that gives a job the Workload that MultiKueue brought with it."""
    workload = observed.workload
    if workload is None or workload.deleting or owned_by(workload.raw, job.uid):
        return None
    if not _may_write(job, facts, now):
        return None
    labels = job_labels(job.namespace, job.name, job.uid) | {kueue.LABEL_JOB_UID: job.uid}
    metadata = {"labels": labels, "ownerReferences": [owner_reference(job)]}
    return WorkloadChange(workload, body={"metadata": metadata})


def while_dispatched(
    job: Job, workload: Workload, facts: Facts, now: datetime
) -> WorkloadChange | None:
    """Return the write that has Kueue send a job anew, with as many pods as it asks for now.

    So it is with one that was refused there and is corrected: Kueue itself sends no change of a job
    that is in another cluster.
    """
    if workload.finished or workload.deleting:
        return None
    refused = job.status.state in keys.REJECTED_STATES and workload.generation
    corrected = refused and workload.generation != str(job.meta.generation)
    if workload.counts == job_counts(job) and not corrected:
        return None
    return WorkloadChange(workload, delete=True) if _may_write(job, facts, now) else None


def without_queue(
    job: Job, observed: Observed, facts: Facts, now: datetime
) -> WorkloadChange | None:
    """Return the deletion of the Workloads of a job that is suspended or in no queue any more."""
    return None if observed.pods else _discarded(job, observed, facts, now)


def _discarded(job: Job, observed: Observed, facts: Facts, now: datetime) -> WorkloadChange | None:
    if (change := extension_changes.discarded(observed, facts, now)) is not None:
        return change
    workload = observed.workload
    if workload is None or workload.deleting or not _may_write(job, facts, now):
        return None
    if job.prebuilt_workload is not None:
        return None  # MultiKueue would only bring it again
    return WorkloadChange(workload, delete=True)


def _may_write(job: Job, facts: Facts, now: datetime) -> bool:
    return may_write(job.workload_name, facts, now)


def _created(job: Job, queue: QueueStatus, facts: Facts) -> WorkloadChange | None:
    if facts.queue.priority is None:
        return None
    priority = kueue.priority_spec(facts.queue.priority)
    return WorkloadChange(body=new_workload(job, queue.workload, _spec(job, queue), priority))


def _respecified(
    job: Job, workload: Workload, queue: QueueStatus, facts: Facts
) -> WorkloadChange | None:
    """Return the update of a Workload that waits, where the job has changed meanwhile."""
    if job.prebuilt_workload is not None:
        return None  # MultiKueue takes back a job whose Workload is not as it was sent
    spec = _spec(job, queue)
    body = respecified(job, workload, spec)
    if facts.queue.priority is not None:
        priority = kueue.priority_spec(facts.queue.priority)
        body["spec"] = body.get("spec", {}) | {"priorityClassRef": None} | priority
    return WorkloadChange(workload, body=body) if body else None


def _spec(job: Job, queue: QueueStatus) -> _Object:
    least, counts = job.least_workers, job_counts(job)
    # No other cluster would add the workers that an elastic job asks for later.
    if least is not None and scheduling(job).elastic and not job.dispatched:
        counts[Role.WORKER] = min(least, counts[Role.WORKER])
    return job_spec(job, queue.name, counts, least)


def _unneeded(
    job: Job, workload: Workload, observed: Observed, *, evaluates: bool
) -> dict[str, int]:
    """Return how many pods by role are gone for good."""
    if evaluates:
        return {
            role.value: count
            for role in (Role.CHIEF, Role.WORKER, Role.PS)
            if (count := workload.counts.get(role.value))
            and not any(pod.active for pod in observed.of(role))
        }
    name, wanted = Role.WORKER.value, job.desired(Role.WORKER)
    fewer = wanted < workload.admitted_count(name)
    if not fewer or any(pod.index >= wanted for pod in observed.of(Role.WORKER)):
        return {}
    return {name: workload.counts[name] - wanted}


def _are_ready(job: Job, workload: Workload, observed: Observed) -> bool:
    pods = [
        observed.get(role, index)
        for role in Role
        for index in job.members(role)
        if role is not Role.WORKER or extensions.holder(observed, index) is workload
    ]
    return all(pod is not None and pod.counts_as_ready for pod in pods)
