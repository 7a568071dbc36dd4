"""The bodies of Workloads, and what a write to one consists of; for the modules that decide writes.

These are core/workload_changes.py and core/extension_changes.py.
"""

import hashlib
import json
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
    labels |= {kueue.LABEL_JOB_UID: job.uid, keys.LABEL_SHAPE: _shape(spec)}
    owner = owner_reference(job)
    if job.dispatched:
        labels[keys.LABEL_GENERATION] = str(job.meta.generation)
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


def respecified(workload: Workload, spec: _Object) -> _Object:
    """Return the merge patch that gives a Workload another spec, {} if it has this one."""
    if workload.shape == _shape(spec):
        return {}
    return {"metadata": {"labels": {keys.LABEL_SHAPE: _shape(spec)}}, "spec": spec}


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


def _shape(spec: _Object) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
