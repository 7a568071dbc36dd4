"""What spec.scheduling adds to a pod: priority, topology and what its scheduler has to know.

core/desired.py adds it to the pod that podtemplate.py made of the user's templates. Where both
would say something, the user's value is refused with its path, as there.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Topology
from tftraining_operator.core.job import Job
from tftraining_operator.core.podtemplate import InvalidTemplateError, template
from tftraining_operator.core.raw_pod import DEFAULT_SCHEDULER
from tftraining_operator.core.roles import traits
from tftraining_operator.core.schedulers.scheduler import Carried

_Object = dict[str, Any]

_MOST_PREFERRED = 100


def place(job: Job, role: Role, pod: _Object, *carried: Carried) -> None:
    """Add to a pod how it is to be scheduled. Raises InvalidTemplateError."""
    spec = pod["spec"]
    for each in carried:
        _carry(role, pod, each)
    given = job.spec.scheduling
    if given is None:
        return
    if given.priority_class_name is not None:
        priority = {"priorityClassName": given.priority_class_name}
        _add(spec, priority, role=role, path="spec", advice=Carried().advice)
    if given.topology is not None and traits(job.spec.strategy, role).in_cluster:
        _prefer(spec, given.topology, {"matchLabels": {keys.LABEL_JOB_UID: job.uid}}, role)


def scheduler_names(job: Job) -> set[str]:
    """Return the schedulers that the templates of the training cluster name."""
    return {spec.get("schedulerName") or DEFAULT_SCHEDULER for spec in _cluster_specs(job)}


def priority_classes(job: Job) -> set[str | None]:
    """Return the PriorityClasses of the training cluster's pods, None for one without."""
    given = job.spec.scheduling.priority_class_name if job.spec.scheduling is not None else None
    return {spec.get("priorityClassName") or given for spec in _cluster_specs(job)}


def require_one_scheduler(job: Job) -> None:
    """Raise InvalidTemplateError for a gang whose pods would go to several schedulers."""
    names = sorted(scheduler_names(job))
    if len(names) > 1:
        raise InvalidTemplateError(
            f"the templates name several schedulers ({', '.join(names)}), and a gang needs one: set"
            " schedulerName in spec.template.spec only, or set spec.scheduling.gang to None"
        )


def _cluster_specs(job: Job) -> list[_Object]:
    return [
        template(job, role)["spec"]
        for role in Role
        if job.desired(role) and traits(job.spec.strategy, role).in_cluster
    ]


def _carry(role: Role, pod: _Object, carried: Carried) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    add = partial(_add, role=role, advice=carried.advice)
    add(metadata["labels"], carried.labels, path="metadata.labels")
    add(metadata["annotations"], carried.annotations, path="metadata.annotations")
    add(spec, carried.spec, path="spec")
    if carried.scheduler_name is not None:
        spec.setdefault("schedulerName", carried.scheduler_name)
    if carried.node_selector:
        spec["nodeSelector"] = dict(spec.get("nodeSelector") or {})
        add(spec["nodeSelector"], carried.node_selector, path="spec.nodeSelector")
    if carried.tolerations:
        known = spec.get("tolerations") or []
        spec["tolerations"] = known + [t for t in carried.tolerations if t not in known]
    if carried.gates:
        gates = [{"name": name} for name in carried.gates]
        spec["schedulingGates"] = [*(spec.get("schedulingGates") or []), *gates]


def _add(target: _Object, more: Mapping[str, Any], *, role: Role, path: str, advice: str) -> None:
    for name, value in more.items():
        if target.setdefault(name, value) != value:
            raise InvalidTemplateError(f"the template of {role.value} sets {path}.{name}, {advice}")


def _prefer(spec: _Object, topology: Topology, pods: _Object, role: Role) -> None:
    """Add a preference, never a requirement: a pod that is placed first cannot know the rest."""
    if topology.pack is not None:
        term = {"topologyKey": topology.pack, "labelSelector": pods}
        item: _Object = {"weight": _MOST_PREFERRED, "podAffinityTerm": term}
        path = ["affinity", "podAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]
    else:
        item = {
            "maxSkew": 1,
            "topologyKey": topology.spread,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": pods,
        }
        path = ["topologySpreadConstraints"]
    *parents, last = path
    node = spec
    for name in parents:
        node[name] = node = _of_type(dict, node.get(name) or {}, path, role).copy()
    node[last] = [*_of_type(list, node.get(last) or [], path, role), item]


def _of_type(kind: type, given: Any, path: list[str], role: Role) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(given, kind):
        raise InvalidTemplateError(
            f"the template of {role.value}: spec.{'.'.join(path)} must be a list of objects"
        )
    return given
