"""Reads what is stored although parts of it are garbage, or of another version of the operator.

pydantic names each value that a model refuses; such a value is replaced where a good one can be
computed, else dropped, and the rest is kept. parse_job (job.py) reads spec and status by this.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pydantic import ValidationError

from tftraining_operator.api.base import Lifetime, Model
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.problems import Problem, field_at, field_path, from_error
from tftraining_operator.api.status import RENAMED, Status
from tftraining_operator.api.types import Spec
from tftraining_operator.core.times import parse, rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

_M = TypeVar("_M", bound=Model)
_Loc = tuple[int | str, ...]

CLOCK_SKEW = timedelta(minutes=5)
"""How far the clocks of operator and API server may be apart; later times are garbage."""

_NODE_CLOCK_SKEW = timedelta(days=1)
"""Some times come from nodes, whose clocks may be far behind."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_REPLACING_ATTEMPTS = 3
"""A good value may turn out bad in its place; later attempts only drop, which comes to an end."""

_DROPPED = object()


@dataclass(frozen=True, slots=True)
class Repair:
    """One stored value that could not be used as it was."""

    problem: Problem
    action: str
    """What was done with it, such as `set to 0`."""

    def __str__(self) -> str:
        return f"{self.problem}; {self.action}"


def stored_spec(raw: object) -> tuple[Spec, list[Problem]]:
    """Parse a stored spec; return what can be understood of it, and what is wrong with the rest."""
    spec, repairs = _salvage(Spec, raw, "spec", _Values({}))
    return spec, [repair.problem for repair in repairs]


def stored_status(
    raw: Mapping[str, Any] | None, *, created: str | None, now: datetime
) -> tuple[Status, tuple[str, ...]]:
    """Parse a stored status; return it and one sentence for each repair.

    `created` is metadata.creationTimestamp.
    """
    known = _moment(created)
    born = min(known or _EPOCH, now)
    lifetime = Lifetime(earliest=born - _NODE_CLOCK_SKEW, latest=now + CLOCK_SKEW)
    given = _with_new_names(raw or {})
    moment = rfc3339(now)
    good: dict[str, object] = {
        "startTime": rfc3339(min(known or now, now)),
        "firstRunningTime": moment,  # a job that has run is not to be started anew
        "interruptedTime": moment,
        "waitingSince": moment,
        "admittedTime": moment,  # pods that have their quota are not to be stopped
        "scheduledTime": moment,  # pods that have their nodes are not to be placed anew
        "lastTransitionTime": moment,
        "updatedAt": moment,
        "time": moment,
        "since": moment,
        "reason": "Unknown",
        "observedGeneration": 0,
    }
    if (finished := _finished_at(given, lifetime, now)) is not None:
        good["completionTime"] = finished
    status, repairs = _salvage(Status, given, "status", _Values(good, lifetime))
    status, more = _within_life(status, born, now)
    return status, tuple(str(repair) for repair in [*repairs, *more])


def _with_new_names(raw: Mapping[str, Any]) -> dict[str, Any]:
    older = {new: raw[old] for old, new in RENAMED.items() if old in raw}
    return older | dict(raw)


def _finished_at(given: Mapping[str, Any], lifetime: Lifetime, now: datetime) -> str | None:
    """Return when a finished job ended, by its condition; None for one that has not."""
    conditions = given.get("conditions")
    for each in conditions if isinstance(conditions, list) else []:
        if not isinstance(each, dict) or each.get("type") != ConditionType.FINISHED.value:
            continue
        if each.get("status") == "True":
            found = _moment(each.get("lastTransitionTime"))
            is_good = found is not None and lifetime.earliest <= found <= lifetime.latest
            return rfc3339(found if found is not None and is_good else now)
    return None


def _within_life(status: Status, born: datetime, now: datetime) -> tuple[Status, list[Repair]]:
    """Correct what would end a job for having run longer than it exists."""
    repairs: list[Repair] = []
    if status.start_time is not None and parse(status.start_time) < born - CLOCK_SKEW:
        problem = Problem("status.startTime", f"{status.start_time} is before the job was created")
        status = status.model_copy(update={"start_time": rfc3339(born)})
        repairs.append(Repair(problem, f"set to {status.start_time}"))
    age = now - born + CLOCK_SKEW
    if status.active_seconds > age.total_seconds():
        message = f"{status.active_seconds} s is longer than the job exists"
        status = status.model_copy(update={"active_seconds": 0})
        repairs.append(Repair(Problem("status.activeSeconds", message), "set to 0"))
    return status, repairs


def _moment(text: object) -> datetime | None:
    try:
        moment = parse(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment


@dataclass(frozen=True, slots=True)
class _Values:
    """Where good values come from."""

    by_name: Mapping[str, object]
    lifetime: Lifetime | None = None

    def instead_of(self, details: ErrorDetails) -> object:
        """Return the nearest good value to a bad one; _DROPPED if there is none."""
        given, loc, kind = details["input"], details["loc"], details["type"]
        limits = details.get("ctx") or {}
        if kind in ("too_long", "string_too_long"):
            return _shortened(given, limits["max_length"])
        if kind == "duplicate_item":
            return _without_duplicates(given, limits["key"])
        if kind == "greater_than_equal" and loc[-1] != "index" and isinstance(loc[-1], str):
            return limits["ge"]
        if self.lifetime is not None and kind == "time_too_late":
            return rfc3339(self.lifetime.latest - CLOCK_SKEW)
        if self.lifetime is not None and kind == "time_too_early":
            return rfc3339(self.lifetime.earliest + _NODE_CLOCK_SKEW)
        return self.by_name.get(str(loc[-1]), _DROPPED) if loc else _DROPPED


def _salvage(model: type[_M], raw: object, root: str, values: _Values) -> tuple[_M, list[Repair]]:
    """Parse `raw`, found at the path `root`, as a model that requires no field, and repair it.

    Fields that are required but absent or bad are taken from `values`; where that has none, the
    object that requires the field is dropped. Unknown fields are ignored.
    """
    text = msgspec.json.encode(raw)
    repairs: dict[str, Repair] = {}
    attempts = 0
    while True:
        try:
            parsed = model.model_validate_json(
                text, by_alias=True, by_name=False, context=values.lifetime
            )
        except ValidationError as error:
            attempts += 1
            usable = values if attempts <= _REPLACING_ATTEMPTS else None
            mended, more = _mend(msgspec.json.decode(text), error, model, root, usable)
            text = msgspec.json.encode(mended)
            repairs |= {str(repair): repair for repair in more}
        else:
            return parsed, list(repairs.values())


def _mend(
    tree: object, error: ValidationError, model: type[Model], root: str, values: _Values | None
) -> tuple[object, list[Repair]]:
    """Replace or drop every value that `error` names; return the tree and what was done."""
    changes: dict[_Loc, object] = {}
    repairs: dict[_Loc, Repair] = {}
    problems = from_error(error, model=model, root=root)
    for details, problem in zip(error.errors(include_url=False), problems, strict=True):
        loc = details["loc"]
        if details["type"] == "extra_forbidden":
            changes[loc] = _DROPPED  # untold: another version knows the field
            continue
        value = values.instead_of(details) if values is not None else _DROPPED
        while value is _DROPPED and not _can_be_absent(model, loc):
            loc = loc[:-1]
        changes[loc] = value
        repairs.setdefault(loc, Repair(problem, _action(value, details, root, loc)))
    # What is dropped as a whole needs no word about its parts.
    listed = [repair for loc, repair in repairs.items() if not _parents(loc) & changes.keys()]
    if () in changes:
        return {}, listed
    # From the end: what is dropped from a list must not move what is still to be changed.
    for loc in sorted(changes, key=_order, reverse=True):
        _set(tree, loc, changes[loc])
    return tree, listed


def _parents(loc: _Loc) -> set[_Loc]:
    return {loc[:end] for end in range(len(loc))}


def _can_be_absent(model: type[Model], loc: _Loc) -> bool:
    if not loc or isinstance(loc[-1], int):
        return True
    field = field_at(model, loc)
    return field is None or not field.is_required()


def _action(value: object, details: ErrorDetails, root: str, loc: _Loc) -> str:
    if value is _DROPPED:
        return "dropped" if loc == details["loc"] else f"dropped {field_path(root, loc)}"
    if details["type"] in ("too_long", "string_too_long"):
        return "shortened"
    return "kept the first" if details["type"] == "duplicate_item" else f"set to {value}"


def _order(loc: _Loc) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (0, part) for part in loc]


def _set(tree: Any, loc: _Loc, value: object) -> None:  # noqa: ANN401 - JSON
    for part in loc[:-1]:
        tree = tree[part]
    if value is not _DROPPED:
        tree[loc[-1]] = value
    elif isinstance(tree, dict):
        tree.pop(loc[-1], None)  # a required field may be absent already
    else:
        del tree[loc[-1]]


def _shortened(given: Any, most: int) -> object:  # noqa: ANN401 - JSON
    return dict(islice(given.items(), most)) if isinstance(given, dict) else given[:most]


def _without_duplicates(items: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    first: dict[object, dict[str, Any]] = {}
    for item in items:
        first.setdefault(item[key], item)
    return list(first.values())
