"""What is wrong with a spec or status: the path of the field, and what to write instead. Pure."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tftraining_operator.api.base import model_in
from tftraining_operator.api.types import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Sized

    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason to refuse a spec."""

    path: str
    """Field as users write it, such as spec.worker.replicas."""
    message: str
    """What to write instead."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def from_error(
    error: ValidationError, *, model: type[BaseModel] = Spec, root: str = "spec"
) -> list[Problem]:
    """Return the errors of parsing `model`, found at `root`, in terms of the YAML."""
    return [
        Problem(field_path(root, details["loc"]), _message(details, model))
        for details in error.errors(include_url=False)
    ]


def field_path(root: str, loc: Sequence[int | str]) -> str:
    """Join a location to a path as kubectl writes it: spec.containers[0].name."""
    path = root
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path


def _message(details: ErrorDetails, model: type[BaseModel]) -> str:
    if details["type"] == "extra_forbidden":
        return _unknown_field(details["loc"], model)
    describe = _MESSAGES.get(details["type"])
    if describe is None:
        return details["msg"]
    return describe(details.get("ctx") or {}, details["input"])


def _unknown_field(loc: Sequence[int | str], model: type[BaseModel]) -> str:
    *parents, name = loc
    known = _known_fields(model, parents)
    # Someone who writes back_off_limit or BackoffLimit means backoffLimit.
    spelled = {field.lower(): field for field in known}
    near = difflib.get_close_matches(str(name).replace("_", "").lower(), spelled, n=1)
    if near:
        return f"unknown field; did you mean {spelled[near[0]]}?"
    if known:
        return f"unknown field; known fields are {', '.join(known)}"
    return "unknown field; this object has no fields"


def _known_fields(model: type[BaseModel], parents: Sequence[int | str]) -> list[str]:
    found = _model_at(model, parents)
    fields = found.model_fields.items() if found is not None else ()
    return [field.alias or name for name, field in fields]


def field_at(model: type[BaseModel], loc: Sequence[int | str]) -> FieldInfo | None:
    """Return the field at a location in `model`; None where no model declares one."""
    *parents, name = loc
    found = _model_at(model, parents)
    return _field(found, name) if found is not None else None


def _model_at(model: type[BaseModel], loc: Sequence[int | str]) -> type[BaseModel] | None:
    found: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, str) and found is not None:
            field = _field(found, part)
            found = model_in(field.annotation) if field is not None else None
    return found


def _field(model: type[BaseModel], alias: int | str) -> FieldInfo | None:
    return next((f for n, f in model.model_fields.items() if (f.alias or n) == alias), None)


def _must_be(what: str) -> Callable[[Mapping[str, Any], object], str]:
    return lambda _ctx, given: f"must be {what}, not {_kind(given)}"


def _integer(_ctx: Mapping[str, Any], given: object) -> str:
    if isinstance(given, str) and given.strip().lstrip("-").isdigit():
        return f"must be an integer: write {given.strip()} without quotes"
    return f"must be an integer, not {_kind(given)}"


def _boolean(_ctx: Mapping[str, Any], given: object) -> str:
    if isinstance(given, str) and given.lower() in {"true", "false", "yes", "no", "on", "off"}:
        truth = "true" if given.lower() in {"true", "yes", "on"} else "false"
        return f"must be true or false: write {truth} without quotes"
    return f"must be true or false, not {_kind(given)}"


def _string(_ctx: Mapping[str, Any], given: object) -> str:
    if isinstance(given, bool | int | float):
        return f'must be a string: write "{_kind(given)}" in quotes'
    return f"must be a string, not {_kind(given)}"


def _enum(ctx: Mapping[str, Any], given: object) -> str:
    # pydantic joins the values as 'A', 'B' or 'C'.
    values = [part for part in str(ctx["expected"]).split("'")[1::2] if part]
    expected = f"must be one of {', '.join(values)}, not {_kind(given)}"
    lower = {value.lower(): value for value in values}
    near = difflib.get_close_matches(str(given).lower(), lower, n=1)
    return f"{expected}; did you mean {lower[near[0]]}?" if near else expected


def _pattern(ctx: Mapping[str, Any], given: object) -> str:
    return f"{_kind(given)} does not match {ctx['pattern']}"


def _kind(given: object) -> str:
    """Name a value short enough for a sentence."""
    if given is None:
        return "null"
    if isinstance(given, str):
        return _short(json.dumps(given, ensure_ascii=False))
    if isinstance(given, bool | int | float):
        return _short(json.dumps(given))
    return "a list" if isinstance(given, list) else "an object"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_MESSAGES: dict[str, Callable[[Mapping[str, Any], object], str]] = {
    "missing": lambda _ctx, _given: "is required",
    "int_type": _integer,
    "int_from_float": _integer,
    "int_parsing_size": lambda _ctx, _given: "is too large a number",
    "bool_type": _boolean,
    "string_type": _string,
    "enum": _enum,
    "list_type": _must_be("a list"),
    "dict_type": _must_be("an object"),
    "model_type": _must_be("an object"),
    "model_attributes_type": _must_be("an object"),
    "string_pattern_mismatch": _pattern,
    "greater_than_equal": lambda ctx, given: f"must be at least {ctx['ge']}, not {_kind(given)}",
    "less_than_equal": lambda ctx, given: f"must be at most {ctx['le']}, not {_kind(given)}",
    "string_too_short": lambda ctx, given: (
        f"must have at least {ctx['min_length']} characters" if given else "must not be empty"
    ),
    "string_too_long": lambda ctx, given: (
        f"has {len(str(given))} characters; the maximum is {ctx['max_length']}"
    ),
    # Of a map its length is not in the context.
    "too_long": lambda ctx, given: (
        f"has {len(cast('Sized', given))} items; the maximum is {ctx['max_length']}"
    ),
    "time_format": _must_be("a time in RFC 3339"),
    "number_format": _must_be("a decimal number as text"),
    "role_name": lambda ctx, given: f"must be one of {ctx['roles']}, not {_kind(given)}",
}
