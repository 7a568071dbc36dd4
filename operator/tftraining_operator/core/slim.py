"""Cuts objects down to the fields that the operator reads; `reconcile/store.py` keeps only these.

A pod as the API server tells it takes two and a half times the memory: much of it is its template,
which the operator knows from the job. Whoever reads another field of a pod or a service adds it
here; tests/unit/test_slim.py compares what is observed of whole and of slim pods.
"""

from collections.abc import Iterable
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.core.environment import ATTEMPT, CLUSTER_WORKERS

_Object = dict[str, Any]

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
)
_OWNER = ("apiVersion", "kind", "name", "uid", "controller")
_POD_SPEC = ("nodeName", "restartPolicy", "schedulerName", "schedulingGates")
_VOLUME = ("configMap", "secret", "persistentVolumeClaim", "projected")
_CONTAINER = ("name", "image", "restartPolicy", "livenessProbe")
_POD_STATUS = ("phase", "reason", "message", "podIP", "podIPs", "startTime")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER_STATUS = ("name", "image", "ready", "started", "state", "lastState")
_SERVICE_SPEC = ("selector", "publishNotReadyAddresses")
_ANNOTATIONS = (keys.ANNOTATION_GANG, keys.ANNOTATION_WORKERS, keys.ANNOTATION_WORKLOAD)
_VARIABLES = frozenset({ATTEMPT, CLUSTER_WORKERS})


def pod(raw: _Object) -> _Object:
    """Return what is read of a pod."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    found = _only(spec, _POD_SPEC)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            found[field] = [_container(each) for each in spec[field]]
    if volumes := [_only(each, _VOLUME) for each in spec.get("volumes") or ()]:
        found["volumes"] = [each for each in volumes if each]
    said = _only(status, _POD_STATUS)
    if status.get("conditions"):
        said["conditions"] = _each(status["conditions"], _CONDITION)
    for field in ("containerStatuses", "initContainerStatuses"):
        if status.get(field):
            said[field] = _each(status[field], _CONTAINER_STATUS)
    return {"metadata": _metadata(raw["metadata"]), "spec": found, "status": said}


def service(raw: _Object) -> _Object:
    """Return what is read of a service."""
    spec = _only(raw.get("spec") or {}, _SERVICE_SPEC)
    return {"metadata": _metadata(raw["metadata"]), "spec": spec}


def disruption_budget(raw: _Object) -> _Object:
    """Return what is read of a PodDisruptionBudget: all but its status."""
    return {"metadata": _metadata(raw["metadata"]), "spec": raw.get("spec") or {}}


def other(raw: _Object) -> _Object:
    """Return a job or a group without what others noted in its metadata."""
    unread = ("managedFields", "annotations")
    metadata = {name: value for name, value in raw["metadata"].items() if name not in unread}
    return {**raw, "metadata": metadata}


def asks_the_same(kept: _Object | None, raw: _Object) -> bool:
    """Tell whether a version of a job differs from a kept one in its status alone."""
    return kept is not None and _asked(kept) == _asked(other(raw))


def _asked(job: _Object) -> tuple[_Object, object]:
    metadata = {name: v for name, v in job["metadata"].items() if name != "resourceVersion"}
    return metadata, job.get("spec")


def _metadata(metadata: _Object) -> _Object:
    found = _only(metadata, _METADATA)
    if metadata.get("ownerReferences"):
        found["ownerReferences"] = _each(metadata["ownerReferences"], _OWNER)
    if annotations := _only(metadata.get("annotations") or {}, _ANNOTATIONS):
        found["annotations"] = annotations
    return found


def _container(container: _Object) -> _Object:
    found = _only(container, _CONTAINER)
    variables = [each for each in container.get("env") or () if each.get("name") in _VARIABLES]
    if variables:
        found["env"] = variables
    limits = (container.get("resources") or {}).get("limits") or {}
    if "memory" in limits:
        found["resources"] = {"limits": {"memory": limits["memory"]}}
    return found


def _each(items: Iterable[_Object], fields: tuple[str, ...]) -> list[_Object]:
    return [_only(item, fields) for item in items]


def _only(source: _Object, fields: tuple[str, ...]) -> _Object:
    return {field: source[field] for field in fields if field in source}
