"""Kueue: Workload of kueue.x-k8s.io/v1beta2, by which a job waits for quota before it has any pod.

Kueue starts no pods of kinds that it does not know; it only writes into the Workload that their
quota is reserved, or taken back. This module makes a Workload and what its pods carry;
kueue_workload.py reads one, kueue_status.py writes into its status. core/queueing.py decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.schedulers.scheduler import Carried, GroupApi

_Object = dict[str, Any]

API = GroupApi(
    group="kueue.x-k8s.io",
    versions=("v1beta2",),
    needs="Kueue 0.15 or newer",
    value="scheduling.kueue",
    plural="workloads",
)

LABEL_JOB_UID = "kueue.x-k8s.io/job-uid"
PRIORITY_GROUP = API.group
PRIORITY_KIND = "WorkloadPriorityClass"

_LABEL_POD_SET = "kueue.x-k8s.io/podset"
_ANNOTATION_WORKLOAD = "kueue.x-k8s.io/workload"
_TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
_TOPOLOGY = "kueue.x-k8s.io/podset-{}-topology"
_ADVICE = (
    "which Kueue decided when it admitted the job, by ResourceFlavor and admission checks: suspend"
    " the job and remove it, or name a queue that admits with the same"
)


@dataclass(frozen=True, slots=True)
class Flavor:
    """What the pods of a ResourceFlavor need to get onto its nodes."""

    node_labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[_Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Priority:
    """The priority of a Workload, and the class that it is from."""

    value: int = 0
    reference: Mapping[str, str] | None = None
    """group, kind and name of the class; None without one."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one role."""

    name: str
    count: int
    template: _Object
    """Pod template, as far as Kueue needs it."""
    least: int | None = None
    """Number of pods that may be admitted instead of `count`."""


def pod_set(name: str, count: int, template: _Object, least: int | None) -> PodSet:
    """Return the pods of a role, as Kueue needs to know them; `least` only where it is fewer.

    Only what takes quota or chooses nodes is in the template: of the whole one, Kueue's CRD refuses
    legal parts, such as two environment variables of one name.
    """
    metadata, spec = template.get("metadata") or {}, template["spec"]
    kept = {name: spec[name] for name in _KEPT if spec.get(name) is not None}
    for name_of_list in ("initContainers", "containers"):
        if containers := spec.get(name_of_list):
            kept[name_of_list] = [
                {part: each[part] for part in _KEPT_OF_CONTAINERS if each.get(part) is not None}
                for each in containers
            ]
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    body: _Object = {"spec": kept}
    if labels or annotations:
        body["metadata"] = {"labels": labels or {}, "annotations": annotations or {}}
    fewer = least is not None and 0 < least < count
    return PodSet(name, count, body, least if fewer else None)


_KEPT = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "schedulerName"),
    *("priorityClassName", "runtimeClassName", "overhead", "resources", "resourceClaims"),
)
_KEPT_OF_CONTAINERS = ("name", "image", "resources", "restartPolicy")


def workload_spec(queue: str, pod_sets: Iterable[PodSet], index_label: str | None) -> _Object:
    """Return the spec of a Workload, without its priority.

    `index_label` numbers the pods of a pod set from 0; None if theirs begin elsewhere.
    """
    return {"queueName": queue, "podSets": [_pod_set(each, index_label) for each in pod_sets]}


def priority_spec(priority: Priority) -> _Object:
    """Return the part of a Workload's spec that says its priority."""
    spec: _Object = {"priority": priority.value}
    if priority.reference is not None:
        spec["priorityClassRef"] = dict(priority.reference)
    return spec


def member(workload: Workload, role: str, flavors: Mapping[str, Flavor]) -> Carried:
    """Return what a pod carries that is created on what was admitted. Raises KeyError.

    `flavors` has each flavor that is assigned to the role.
    """
    given = workload.assignments[role]
    found = [flavors[name] for name in given.flavors]
    annotations = {_ANNOTATION_WORKLOAD: workload.name}
    spec = next(each for each in workload.raw["spec"]["podSets"] if each["name"] == role)
    if given.has_topology:
        asked = spec.get("topologyRequest") or {}
        kind = next((k for k in ("required", "preferred") if asked.get(k)), "unconstrained")
        annotations[_TOPOLOGY.format(kind)] = str(asked.get(kind, "true")).replace("True", "true")
    return Carried(
        labels=_joined(update.get("labels") for update in given.updates) | {_LABEL_POD_SET: role},
        annotations=_joined(update.get("annotations") for update in given.updates) | annotations,
        node_selector=_joined(
            [each.node_labels for each in found]
            + [update.get("nodeSelector") for update in given.updates]
        ),
        tolerations=tuple(
            toleration
            for each in [
                *(flavor.tolerations for flavor in found),
                *(update.get("tolerations") or () for update in given.updates),
            ]
            for toleration in each
        ),
        gates=(_TOPOLOGY_GATE,) if given.has_topology else (),
        advice=_ADVICE,
    )


def _pod_set(given: PodSet, index_label: str | None) -> _Object:
    found: _Object = {"name": given.name, "count": given.count, "template": given.template}
    if given.least is not None:
        found["minCount"] = given.least
    annotations = (given.template.get("metadata") or {}).get("annotations") or {}
    asked: _Object = {
        kind: value if kind != "unconstrained" else value == "true"
        for kind in ("required", "preferred", "unconstrained")
        if (value := annotations.get(_TOPOLOGY.format(kind))) is not None
    }
    if asked:
        numbered = {"podIndexLabel": index_label} if index_label is not None else {}
        found["topologyRequest"] = asked | numbered
    return found


def _joined(mappings: Iterable[Mapping[str, str] | None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in mappings:
        found |= each or {}
    return found
