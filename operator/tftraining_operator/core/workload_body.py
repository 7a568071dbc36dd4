"""The bodies of Workloads, and what a write to one consists of; for the modules that decide writes.

These are core/workload_changes.py and core/extension_changes.py.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core.desired import owner_reference
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import scheduling
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import job_labels
from tftraining_operator.core.podtemplate import template
from tftraining_operator.core.schedulers import kueue
from tftraining_operator.core.schedulers.kueue_workload import Workload

_Object = dict[str, Any]

_ORDER = (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)
"""Of the pod sets."""


@dataclass(frozen=True, slots=True)
class WorkloadChange:
    """One write to the job's Workload."""

    known: Workload | None = None
    """The Workload that is changed; None if it is to be created."""
    body: _Object | None = None
    """The object to create, or the merge patch for all but its status."""
    status: _Object | None = None
    """The merge patch for its status."""
    delete: bool = False


def new_workload(
    job: Job, name: str, spec: _Object, priority: _Object, extension: int = 0
) -> _Object:
    """Return a Workload to create."""
    labels = job_labels(job.namespace, job.name, job.uid)
    labels |= {kueue.LABEL_JOB_UID: job.uid, **_made_of(job, spec)}
    owner = owner_reference(job)
    if extension:
        # A job has one Workload that it controls, which is what older operators look for.
        labels[keys.LABEL_EXTENSION], owner["controller"] = str(extension), False
    return {
        "apiVersion": f"{kueue.API.group}/{kueue.API.versions[0]}",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": spec | priority,
    }


def respecified(job: Job, workload: Workload, spec: _Object) -> _Object:
    """Return the merge patch that gives a Workload another spec, {} if it has this one."""
    if workload.shape == _shape(spec):
        return {}
    return {"metadata": {"labels": _made_of(job, spec)}, "spec": spec}


def job_counts(job: Job) -> dict[str, int]:
    """Return how many pods of each role a job asks for, in the order of the pod sets."""
    return {role.value: count for role in _ORDER if (count := job.spec.replicas(role))}


def job_spec(job: Job, queue: str, counts: Mapping[str, int], least: int | None) -> _Object:
    """Return the spec of the Workload of a whole job. Raises InvalidTemplateError."""
    pod_sets = [
        kueue.pod_set(
            role, count, quota_template(job, Role(role)), least if role == Role.WORKER else None
        )
        for role, count in counts.items()
    ]
    return kueue.workload_spec(queue, pod_sets, keys.LABEL_INDEX)


def is_of_before(job: Job, workload: Workload) -> bool:
    """Tell whether a Workload has quota for other pods than the job has now, however many workers.

    What they are made of changes only while it is suspended, which costs it the Workload; a job
    that was suspended, corrected and resumed before anybody looked has it still. Raises
    InvalidTemplateError.
    """
    if not workload.holds_quota or job.prebuilt_workload is not None:
        return False
    made_of = workload.generation
    if not made_of.isdecimal() or int(made_of) >= job.meta.generation:
        return False
    worker, counts = Role.WORKER.value, job_counts(job)
    if worker in counts:
        counts[worker] = workload.counts.get(worker, 0)
    now = job_spec(job, workload.queue_name, counts, workload.least(worker))
    return workload.shape != _shape(now)


def quota_template(job: Job, role: Role) -> _Object:
    """Return the template of a role's pods with its priority. Raises InvalidTemplateError."""
    found = template(job, role)
    if (name := scheduling(job).priority_class_name) is None:
        return found
    return {**found, "spec": {**found["spec"], "priorityClassName": name}}


def may_write(name: str, facts: Facts, now: datetime) -> bool:
    """Tell whether Kueue is there, and what it refused is to be tried again."""
    refused = facts.waits(now) and name in facts.refused
    return facts.offer.kueue and not refused


def _made_of(job: Job, spec: _Object) -> dict[str, str]:
    """Return the labels that say what a Workload is made of."""
    return {keys.LABEL_SHAPE: _shape(spec), keys.LABEL_GENERATION: str(job.meta.generation)}


def _shape(spec: _Object) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
