"""JSON merge patches (RFC 7386), and the one that stores a status.

The reconciler writes a status by its patch alone. Fields and conditions of other versions of the
operator stay in it: a rollback must not lose what the newer version needs again later.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from tftraining_operator.api.base import map_key, model_in
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import MAX_CONDITIONS, RENAMED, Status

_Object = Mapping[str, Any]

_KNOWN_CONDITIONS = frozenset(kind.value for kind in ConditionType)


def status_patch(stored: _Object, status: Status) -> dict[str, Any]:
    """Return the patch that makes a stored status the given one; {} if they are equal.

    What only other versions know is kept. Renamed fields are stored under their old names as well:
    after a rollback the version before knows only those.
    """
    new = _with_unknown(stored, status.as_dict(), Status)
    new |= {old: new[name] for old, name in RENAMED.items() if new[name]}
    new["conditions"] = [*new["conditions"], *_unknown_conditions(stored, status)]
    return merge_patch(stored, new)


def merge_patch(old: _Object, new: _Object) -> dict[str, Any]:
    """Return the patch that turns `old` into `new`; {} if they are equal. Lists go whole."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, Mapping) and isinstance(old[key], Mapping):
            if inner := merge_patch(old[key], value):
                patch[key] = inner
        elif value != old[key]:
            patch[key] = value
    return patch


def _with_unknown(stored: _Object, new: _Object, model: type[BaseModel]) -> dict[str, Any]:
    """Return `new` with the fields of `stored` that `model` does not know."""
    if stored.get("time") != new.get("time"):
        return dict(new)  # of another failure, disruption or checkpoint
    known = _fields(model)
    unknown = {k: v for k, v in stored.items() if k not in known and k not in RENAMED}
    merged = dict(new)
    for name in new.keys() & stored.keys():
        before, after, (inner, key) = stored[name], new[name], known[name]
        if inner is None:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            merged[name] = _with_unknown(before, after, inner)
        elif isinstance(before, list) and key is not None:
            by_key = {each.get(key): each for each in before if isinstance(each, Mapping)}
            merged[name] = [_with_unknown(by_key.get(e[key], e), e, inner) for e in after]
    return unknown | merged


@cache
def _fields(model: type[BaseModel]) -> dict[str, tuple[type[BaseModel] | None, str | None]]:
    """Return a model's fields as they are stored: the model in each, and the key of a map."""
    return {
        field.alias or name: (model_in(field.annotation), map_key(field))
        for name, field in model.model_fields.items()
    }


def _unknown_conditions(stored: _Object, status: Status) -> list[Any]:
    found = stored.get("conditions")
    known = _KNOWN_CONDITIONS | {condition.type for condition in status.conditions}
    unknown = [
        each
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, Mapping) and each.get("type") not in known
    ]
    return unknown[: MAX_CONDITIONS - len(status.conditions)]
