"""Merge one pod template over another, lists by their Kubernetes merge keys."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_Lay = Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]

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

# Lists of what is one of several kinds, by the field that it has: of two, a pod is refused.
_OF_ONE_KIND = frozenset({"env", "volumes"})

# What Kubernetes takes an absent merge key for.
_DEFAULTS = {"protocol": "TCP"}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` laid on it; a null in `over` removes the field."""
    merged = dict(base)
    for key, value in over.items():
        under = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = merge(under, value)
        elif isinstance(value, list) and isinstance(under, list) and key in _MERGE_KEYS:
            lay = _replace_kind if key in _OF_ONE_KIND else merge
            merged[key] = list(_merge_items(under, value, _MERGE_KEYS[key], lay))
        else:
            merged[key] = _without_nulls(value)
    return merged


def _merge_items(base: list[Any], over: list[Any], by: tuple[str, ...], lay: _Lay) -> Iterator[Any]:
    # By repr: what is no object or has no sensible key is for the API server to refuse.
    def identity(item: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever stands in the YAML
        if not isinstance(item, Mapping):
            return (repr(item),)
        return tuple(repr(item.get(k) or _DEFAULTS.get(k)) for k in by)

    laid = {identity(item): item for item in over}
    for item in base:
        found = laid.pop(identity(item), None)
        yield lay(item, found) if isinstance(found, Mapping) else item
    yield from _without_nulls(list(laid.values()))


def _replace_kind(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two variables or volumes of one name; if `over` says its kind, that of `base` goes."""
    says = any(value is not None for key, value in over.items() if key != "name")
    return merge({k: v for k, v in base.items() if k in over} if says else base, over)


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
