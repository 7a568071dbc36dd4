"""The writes to a job's extensions: they are made, changed, ended and deleted one at a time.

core/workload_changes.py asks when there is nothing to write to the job's own Workload. All follows
from job, Workloads and pods; no quota is given back before the pods that use it are gone.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core import extensions
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.history import has_run
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.roles import traits
from tftraining_operator.core.schedulers import kueue, kueue_status
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.workload_body import (
    WorkloadChange,
    may_write,
    new_workload,
    quota_template,
    respecified,
)

_Object = dict[str, Any]

_WORKER = Role.WORKER.value


def while_training(
    job: Job, observed: Observed, facts: Facts, now: datetime
) -> WorkloadChange | None:
    """Return the write that asks for workers, or gives some back. Raises InvalidTemplateError."""
    for change in _changes(job, observed, now):
        name = change.known.name if change.known else extensions.next_name(job, observed)
        if may_write(name, facts, now):
            return change
    return None


def discarded(observed: Observed, facts: Facts, now: datetime) -> WorkloadChange | None:
    """Return the deletion of the last extension of a job whose workers are gone."""
    for each in reversed(observed.extensions):
        if not each.deleting and may_write(each.name, facts, now):
            return WorkloadChange(each, delete=True)
    return None


def _changes(job: Job, observed: Observed, now: datetime) -> Iterator[WorkloadChange]:
    held, present = extensions.admitted(observed), extensions.workers(observed)
    wanted, stored = job.spec.replicas(Role.WORKER), job.desired(Role.WORKER)
    # What the status still counts on may be created again.
    kept = min(wanted, present)
    is_settled = stored <= present and all(p.index < kept for p in observed.of(Role.WORKER))
    waiting = observed.extensions[len(held) :]
    if waiting:
        yield from _while_waiting(job, observed, waiting, now, is_settled=is_settled)
    end = present
    for each in reversed(held):
        start = end - each.admitted_count(_WORKER)
        if wanted > start:
            yield from _while_held(observed, each, range(start, end), wanted, now)
        elif is_settled:
            yield WorkloadChange(each, delete=True)
        end = start
    # The quota of a job from another cluster is for the queue there to give.
    may_grow = job.prebuilt_workload is None and has_run(job.status)
    may_grow = may_grow and is_settled and wanted > present
    if may_grow and not waiting and len(held) < extensions.LIMIT:
        own, name = observed.workload, extensions.next_name(job, observed)
        if own is not None:
            spec = _spec(job, own, wanted - present)
            body = new_workload(job, name, spec, own.priority, len(held) + 1)
            yield WorkloadChange(body=body)


def _while_waiting(
    job: Job,
    observed: Observed,
    waiting: tuple[Workload, ...],
    now: datetime,
    *,
    is_settled: bool,
) -> Iterator[WorkloadChange]:
    """Yield what becomes of extensions whose workers may not exist; one of them waits."""
    first, own = waiting[0], observed.workload
    missing = job.spec.replicas(Role.WORKER) - extensions.workers(observed)
    is_wanted = missing > 0 and first.name == extensions.next_name(job, observed)
    for each in reversed(waiting[is_wanted:]):
        if is_settled and not each.deleting:
            yield WorkloadChange(each, delete=True)
    if not is_wanted or first.deleting or first.finished or own is None:
        return
    if first.holds_quota:
        if first.evicted and is_settled:
            yield WorkloadChange(first, status=kueue_status.released(first, now))
        return
    body = respecified(job, first, _spec(job, own, missing))
    if first.priority != own.priority:
        body["spec"] = body.get("spec", {}) | {"priorityClassRef": None} | own.priority
    if body:
        yield WorkloadChange(first, body=body)


def _while_held(
    observed: Observed, extension: Workload, indexes: range, wanted: int, now: datetime
) -> Iterator[WorkloadChange]:
    """Yield what Kueue is told of the workers of an admitted extension."""
    own = observed.workload
    if own is not None and extension.priority != own.priority:
        yield WorkloadChange(extension, body={"spec": own.priority})
    pods = [observed.get(Role.WORKER, index) for index in indexes]
    unneeded = {}
    if not any(pod is not None and pod.index >= wanted for pod in pods):
        kept = min(wanted, indexes.stop) - indexes.start
        if kept < len(indexes):
            unneeded = {_WORKER: extension.counts[_WORKER] - kept}
    ready = all(pod is not None and pod.counts_as_ready for pod in pods)
    if status := kueue_status.observed_pods(extension, unneeded, now, ready=ready):
        yield WorkloadChange(extension, status=status)


def _spec(job: Job, own: Workload, count: int) -> _Object:
    """Return the spec of an extension, in the queue that has admitted the job."""
    # Some workers are better than none, unless each change of their number restarts them all.
    least = 1 if traits(job.spec.strategy, Role.WORKER).tolerates_absence else None
    pods = kueue.pod_set(_WORKER, count, quota_template(job, Role.WORKER), least)
    return kueue.workload_spec(own.queue_name, [pods], None)
