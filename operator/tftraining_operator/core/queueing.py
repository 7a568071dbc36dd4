"""The job's place in a queue of Kueue: it has pods only while its Workload is admitted.

All follows from the job, the Workload and the pods, so that it makes no difference when the
operator ends and begins. core/decide.py asks what the next place is; core/workload_changes.py has
the writes that follow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.api.status import Eviction, QueueStatus
from tftraining_operator.core import extensions
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import SchedulerUnavailableError, scheduling
from tftraining_operator.core.job import InvalidJobError, Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.podtemplate import template
from tftraining_operator.core.policies.creation import Slot
from tftraining_operator.core.schedulers import kueue
from tftraining_operator.core.schedulers.kueue_workload import PREEMPTED, Workload
from tftraining_operator.core.schedulers.offer import Availability
from tftraining_operator.core.schedulers.scheduler import Carried
from tftraining_operator.core.text import counted
from tftraining_operator.core.times import parse, rfc3339


def next_queue(job: Job, observed: Observed, facts: Facts, now: datetime) -> QueueStatus | None:
    """Return the job's place in its queue, None for a job that needs none.

    Raises SchedulerUnavailableError, InvalidJobError.
    """
    known = job.status.queue
    if known is None or known.waiting_since is None:
        # Pods that exist have no quota, and would have to go to wait for it.
        name = queue_name(job) if job.status.start_time is None else None
        if name is None:
            return None
        if not facts.offer.kueue:
            silent = facts.offer.workloads is Availability.SILENT
            raise SchedulerUnavailableError(facts.offer.queue_problem(name), is_known=not silent)
        fresh = known or QueueStatus(name=name, workload=job.workload_name)
        known = fresh.model_copy(update={"name": name, "waiting_since": rfc3339(now)})
    if known.admitted_time is not None:
        return _while_admitted(job, known, observed, facts, now)
    name = _where_it_waits(job, known, observed)
    if name is None:
        return None
    known = known.model_copy(update={"name": name})
    workload = observed.workload
    if not facts.offer.kueue or workload is None or not workload.admitted:
        return known
    if any(pod.workload != workload.uid for pod in observed.pods.values()):
        return known
    waited = known.wait_seconds + max(0, round((now - _since(known, now)).total_seconds()))
    return known.model_copy(
        update={
            "admitted_time": rfc3339(now),
            "workers": workload.admitted_count(Role.WORKER.value),
            "wait_seconds": waited,
        }
    )


def left(job: Job) -> QueueStatus | None:
    """Return the place of a job that is suspended: none, but what it has waited is kept."""
    known = job.status.queue
    if known is None:
        return None
    nothing = {"waiting_since": None, "admitted_time": None, "workers": None}
    return known.model_copy(update=nothing)


def queue_name(job: Job) -> str | None:
    """Return the LocalQueue that a job names, None without one. Raises InvalidJobError."""
    given, label = scheduling(job), job.meta.labels.get(keys.LABEL_QUEUE)
    named = given.queue if given.gang is not Gang.VOLCANO else None
    if label and named and label != named:
        raise InvalidJobError(
            f"spec.scheduling.queue is {named}, but the label {keys.LABEL_QUEUE} is {label}: "
            "remove one of the two"
        )
    return label or named


def waits(queue: QueueStatus | None) -> bool:
    """Tell whether a job is in a queue and not admitted."""
    return queue is not None and queue.waiting_since is not None and queue.admitted_time is None


def enters(known: QueueStatus | None, queue: QueueStatus | None) -> bool:
    """Tell whether a job is admitted that was not, as far as it is stored."""
    return queue is not None and (known is None or known.admitted_time is None)


def priority_class(job: Job) -> str | None:
    """Return the WorkloadPriorityClass that a job names."""
    return job.meta.labels.get(keys.LABEL_WORKLOAD_PRIORITY) or None


def pod_priority_class(job: Job) -> str | None:
    """Return the PriorityClass of a job's first pods. Raises InvalidTemplateError."""
    given = scheduling(job).priority_class_name
    return given or template(job, Role.CHIEF)["spec"].get("priorityClassName") or None


def wants_priority(job: Job, workload: Workload | None) -> bool:
    """Tell whether the priority of a job has to be read for its Workload."""
    if job.prebuilt_workload is not None:
        return False
    if workload is None:
        return True
    known, wanted = workload.priority_class or {}, priority_class(job)
    ours = known.get("kind") == kueue.PRIORITY_KIND
    if workload.holds_quota and not (ours and wanted):
        return False  # Kueue allows only another class of its own
    return wanted != (known.get("name") if ours else None)


def unseen_workload(job: Job, observed: Observed) -> str | None:
    """Return the name of a Workload that has quota for the job's pods, but is not seen."""
    known, workload = job.status.queue, observed.workload
    is_over = is_finished(job.status) or job.status.chief_completion_time is not None
    if known is None or known.admitted_time is None or job.dispatched or is_over:
        return None
    if workload is None:
        return job.workload_name
    wanted = min(known.workers or 0, job.spec.replicas(Role.WORKER))
    if not workload.admitted or extensions.workers(observed) >= wanted:
        return None
    name = extensions.next_name(job, observed)
    return name if all(each.name != name for each in observed.extensions) else None


def admitted_pods(
    observed: Observed, queue: QueueStatus | None, facts: Facts, slots: Iterable[Slot]
) -> Mapping[Slot, Carried] | None:
    """Return which pods may be created now, and what they carry; None if this is not known yet."""
    workload = observed.workload
    if queue is None:
        return dict.fromkeys(slots, Carried())
    if workload is None or not facts.offer.kueue:
        return None
    # Also of those in an extension: with the admission of the job, that of all its pods ends.
    own = {keys.ANNOTATION_WORKLOAD: workload.uid}
    known: dict[tuple[str, Role], Carried] = {}
    found: dict[Slot, Carried] = {}
    for role, index in slots:
        holder = extensions.holder(observed, index) if role is Role.WORKER else workload
        if holder is None:
            continue
        given = holder.assignments.get(role.value)
        if given is not None and not all(name in facts.queue.flavors for name in given.flavors):
            return None
        if (holder.name, role) not in known:
            carried = kueue.member(holder, role.value, facts.queue.flavors) if given else Carried()
            annotations = {**carried.annotations, **own} if given else {}
            known[holder.name, role] = replace(carried, annotations=annotations)
        found[role, index] = known[holder.name, role]
    return found


def describe_waiting(job: Job, queue: QueueStatus, observed: Observed, facts: Facts) -> str:
    """Say since when a job waits for quota, and for what."""
    since = f"queued since {queue.waiting_since} in {queue.name}: "
    refused = facts.refused.get(queue.workload)
    workload = observed.workload
    if not facts.offer.kueue:
        return since + facts.offer.queue_problem(queue.name)
    if refused is not None:
        return f"{since}Workload {queue.workload} could not be written: {refused.message}"
    if facts.queue.priority_problem:
        return since + facts.queue.priority_problem
    if workload is None and job.prebuilt_workload is not None:
        return f"{since}Workload {queue.workload}, which MultiKueue brings, is not there"
    evicted = queue.last_eviction
    if observed.pods:
        why = f"{evicted.reason}: {evicted.message}" if evicted is not None else "not admitted"
        return f"{since}Kueue: {why}; stopping {counted(len(observed.pods), 'pod')}"
    said = workload.explanation() if workload is not None else ""
    return f"{since}Kueue: {said}" if said else f"{since}Kueue has not answered yet"


def describe_admitted(job: Job, queue: QueueStatus, observed: Observed, facts: Facts) -> str:
    """Say where a job has its quota; if not the priority or workers that it asks for, why."""
    where, wanted = f"admitted to queue {queue.name}", job.spec.replicas(Role.WORKER)
    if facts.queue.priority_problem:
        return f"{where}; {facts.queue.priority_problem}"
    if queue.workers is None or queue.workers >= wanted:
        return where
    others = extensions.describe_missing(job, observed, facts)
    return f"{where} with {queue.workers} of {wanted} workers; {others}"


def waiting_reason(queue: QueueStatus, observed: Observed) -> str:
    """Return the reason for which a job is not admitted, Kueue's own for one that was evicted."""
    workload = observed.workload
    if queue.last_eviction is not None and (observed.pods or workload is None):
        return queue.last_eviction.reason
    if workload is None:
        return Reason.QUEUED
    if workload.evicted and workload.eviction[0]:
        return workload.eviction[0]
    return Reason.INADMISSIBLE if workload.inadmissible else Reason.QUEUED


def _where_it_waits(job: Job, known: QueueStatus, observed: Observed) -> str | None:
    """Return the queue of a job that is not admitted, None if it is to leave it.

    Raises InvalidJobError.
    """
    workload = observed.workload
    held = workload.queue_name if workload is not None and workload.holds_quota else None
    try:
        name = queue_name(job)
    except InvalidJobError:
        # Refused before its pods have ended and its quota is given back, it would keep both.
        if held is None and not observed.pods:
            raise
        name = known.name
    # Quota is of the queue in which it was reserved: Kueue moves no Workload that has some.
    return held or name if name is not None else None


def _while_admitted(
    job: Job, known: QueueStatus, observed: Observed, facts: Facts, now: datetime
) -> QueueStatus:
    if not facts.offer.kueue:
        return known  # no evidence: its API may be away for an upgrade
    workload = observed.workload
    if workload is None or any(p.workload != workload.uid for p in observed.pods.values()):
        reason, message = Reason.WORKLOAD_DELETED.value, f"Workload {known.workload} was deleted"
    elif not workload.admitted:
        reason, message = workload.eviction if workload.evicted else ("", "")
        if workload.deleting:
            reason, message = Reason.WORKLOAD_DELETED.value, f"Workload {known.workload} is deleted"
        reason = reason or Reason.NOT_ADMITTED
        message = message or f"Workload {known.workload} is not admitted any more"
    else:
        return _with_workers(job, known, observed, now)
    last = _eviction(reason, message, now)
    return known.model_copy(
        update={
            "waiting_since": rfc3339(now),
            "admitted_time": None,
            "workers": None,
            "evictions": known.evictions + 1,
            "preemptions": known.preemptions + (reason == PREEMPTED),
            "last_eviction": last,
        }
    )


def _with_workers(job: Job, known: QueueStatus, observed: Observed, now: datetime) -> QueueStatus:
    """Return the place of a job that stays admitted, perhaps with more or fewer workers."""
    workers = extensions.workers(observed)
    found = known.model_copy(update={"workers": workers})
    wanted = job.spec.replicas(Role.WORKER)
    if known.workers is None or workers >= min(known.workers, wanted):
        return found
    lost = extensions.first_waiting(observed)
    reason, message = Reason.WORKLOAD_DELETED.value, "a Workload of some workers was deleted"
    if lost is not None and lost.evicted:
        reason, message = lost.eviction
    return found.model_copy(update={"last_eviction": _eviction(reason, message, now)})


def _eviction(reason: str, message: str, now: datetime) -> Eviction:
    return Eviction(reason=reason[:63], message=message[:1024], time=rfc3339(now))


def _since(queue: QueueStatus, now: datetime) -> datetime:
    return parse(queue.waiting_since) if queue.waiting_since is not None else now
