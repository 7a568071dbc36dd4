"""Reads what a job in a queue of Kueue refers to: its priority, and the flavors it is assigned to.

They are read where a pass needs them and kept nowhere: a Workload is made once, and pods are made
seldom. Called by reconciler.py.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core import extensions, queueing
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.facts import NO_QUEUE, QueueFacts
from tftraining_operator.core.job import InvalidJobError, Job
from tftraining_operator.core.observed import Observed, slots
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.schedulers import kueue
from tftraining_operator.core.schedulers.kueue import Flavor, Priority
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.text import one_line, printable
from tftraining_operator.reconcile.errors import ApiError, NotFoundError
from tftraining_operator.reconcile.protocols import Api

_Object = dict[str, Any]

_KUEUE = f"/apis/{kueue.API.group}/{kueue.API.versions[0]}"
_PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 253
_SHOWN = 60


class _UnreadableError(Exception):
    """Something cannot be read; the text names it and says what to do."""


async def read_queue_facts(api: Api, job: Job, observed: Observed) -> QueueFacts:
    """Read what this pass needs; what cannot be read is said in the facts."""
    workload, found = observed.workload, NO_QUEUE
    try:
        if not _may_need_any(job):
            return found
        if queueing.wants_priority(job, workload):
            found = await _with_priority(api, job, found)
    except (InvalidJobError, InvalidTemplateError):
        return found  # the decision says it
    if workload is not None and workload.admitted and _misses_pods(job, observed):
        found = await _with_flavors(api, [workload, *extensions.admitted(observed)], found)
    return found


async def _with_priority(api: Api, job: Job, found: QueueFacts) -> QueueFacts:
    try:
        return replace(found, priority=await _priority(api, job))
    except _UnreadableError as error:
        return replace(found, priority_problem=str(error))


async def _with_flavors(api: Api, held: Iterable[Workload], found: QueueFacts) -> QueueFacts:
    try:
        return replace(found, flavors=await _flavors(api, held))
    except _UnreadableError as error:
        return replace(found, flavor_problem=str(error))


async def _flavors(api: Api, workloads: Iterable[Workload]) -> Mapping[str, Flavor]:
    assigned = [given for each in workloads for given in each.assignments.values()]
    names = {name for given in assigned for name in given.flavors}
    found: dict[str, Flavor] = {}
    for name in sorted(names):
        raw = await _named(api, f"{_KUEUE}/resourceflavors", "ResourceFlavor", name)
        spec = raw.get("spec") or {}
        tolerations = tuple(spec.get("tolerations") or ())
        found[name] = Flavor(spec.get("nodeLabels") or {}, tolerations)
    return found


async def _priority(api: Api, job: Job) -> Priority:
    """Resolve the priority as Kueue does for its own jobs."""
    if (name := queueing.priority_class(job)) is not None:
        raw = await _named(api, f"{_KUEUE}/workloadpriorityclasses", kueue.PRIORITY_KIND, name)
        return _of_class(raw, kueue.PRIORITY_GROUP, kueue.PRIORITY_KIND, name)
    if (name := queueing.pod_priority_class(job)) is not None:
        raw = await _named(api, _PRIORITY_CLASSES, "PriorityClass", name)
        return _of_class(raw, "scheduling.k8s.io", "PriorityClass", name)
    listed = (await _read(api, _PRIORITY_CLASSES, "PriorityClasses")).get("items") or []
    for raw in listed:
        if raw.get("globalDefault"):
            name = raw["metadata"]["name"]
            return _of_class(raw, "scheduling.k8s.io", "PriorityClass", name)
    return Priority()


def _of_class(raw: _Object, group: str, kind: str, name: str) -> Priority:
    reference = {"group": group, "kind": kind, "name": name}
    return Priority(int(raw.get("value") or 0), reference)


async def _named(api: Api, collection: str, kind: str, name: str) -> _Object:
    # In a path, what a user writes could lead to any object that the operator may read.
    if len(name) > _LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise _UnreadableError(f"{one_line(name, _SHOWN)!r} is no name of a {kind}: correct it")
    return await _read(api, f"{collection}/{name}", f"{kind} {name}")


async def _read(api: Api, path: str, what: str) -> _Object:
    try:
        return await api.read(path)
    except NotFoundError as error:
        raise _UnreadableError(f"{what} does not exist: create it, or name another one") from error
    except ApiError as error:
        raise _UnreadableError(f"{what} could not be read: {printable(error.message)}") from error


def _may_need_any(job: Job) -> bool:
    if is_finished(job.status) or job.spec.run_policy.suspend:
        return False
    if job.status.queue is not None:
        return True
    # A job that runs without a queue enters none.
    return job.status.start_time is None and queueing.queue_name(job) is not None


def _misses_pods(job: Job, observed: Observed) -> bool:
    evaluates = job.status.chief_completion_time is not None
    return any(
        observed.get(role, index) is None
        for role, index, _ in slots(job)
        if role is Role.EVALUATOR or not evaluates
    )
