"""Merge one pod template over another, lists by their Kubernetes merge keys."""

from collections.abc import Iterator, Mapping
from typing import Any

# The patchMergeKey of the PodSpec's lists. A list that is not here is replaced whole.
_MERGE_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` laid on it; a null in `over` removes the field."""
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        elif isinstance(value, list) and isinstance(merged.get(key), list) and key in _MERGE_KEYS:
            merged[key] = list(_merge_items(merged[key], value, _MERGE_KEYS[key]))
        else:
            merged[key] = value
    return merged


def _merge_items(base: list[Any], over: list[Any], by: tuple[str, ...]) -> Iterator[Any]:
    def identity(item: Any) -> tuple[Any, ...]:  # noqa: ANN401 - whatever stands in the YAML
        return tuple(item.get(k) for k in by) if isinstance(item, Mapping) else (item,)

    laid = {identity(item): item for item in over}
    for item in base:
        found = laid.pop(identity(item), None)
        yield item if found is None else merge(item, found)
    yield from laid.values()
