"""What all models of the API share: strict validation, types of fields, markers for the CRD."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from tftraining_operator.api.keys import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.config import JsonDict
    from pydantic.fields import FieldInfo


class Model(BaseModel):
    """Refuses what the API server refuses: unknown fields, and values of another type."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, given: object) -> object:
        # As the API server does with every field that it knows.
        if not isinstance(given, dict):
            return given
        if None not in given.values():
            return given
        known = {field.alias or name for name, field in cls.model_fields.items()}
        return {k: v for k, v in given.items() if v is not None or k not in known}


class Shell(Model):
    """Typed where we read, open everywhere else."""

    model_config = ConfigDict(extra="allow")


def map_by(key: str) -> JsonDict:
    """Mark a list whose items are told apart, and merged by server-side apply, by `key`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def map_key(field: FieldInfo) -> str | None:
    """Return the key by which a list's items are told apart, None for any other field."""
    extra = field.json_schema_extra
    keys = extra.get("x-kubernetes-list-map-keys") if isinstance(extra, dict) else None
    return str(keys[0]) if isinstance(keys, list) else None


def model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any type form
    """Find the model in `Model`, `Model | None`, `list[Model]` and their like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = map(model_in, typing.get_args(annotation))
    return next((model for model in found if model), None)


def unique(key: str) -> Callable[[list[Any]], list[Any]]:
    """Refuse two items with the same `key`, as the API server does in a list that is a map."""

    def check(items: list[Any]) -> list[Any]:
        seen = [getattr(item, key) for item in items]
        twice = sorted({name for name in seen if seen.count(name) > 1})
        if twice:
            raise PydanticCustomError(
                "duplicate_item",
                "{key} must be unique; given more than once: {twice}",
                {"key": key, "twice": ", ".join(map(str, twice))},
            )
        return items

    return check


def _without_nulls(given: object) -> object:
    return {k: v for k, v in given.items() if v is not None} if isinstance(given, dict) else given


def _integral(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


StringMap = Annotated[dict[str, str], BeforeValidator(_without_nulls)]
"""A map of strings; a key whose value is null is absent, as the API server has it."""

INTEGRAL = BeforeValidator(_integral)
"""3.0 is 3, as in JSON. Not so where a CEL rule reads the field: there 3.0 has the wrong type."""


_LONGEST_WAIT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Between which moments a stored time can lie; the context of a validation that checks it."""

    earliest: datetime
    latest: datetime


def _time(text: str, info: ValidationInfo) -> str:
    return _checked_time(text, info, timedelta(0))


def _due_time(text: str, info: ValidationInfo) -> str:
    return _checked_time(text, info, _LONGEST_WAIT)


def _checked_time(text: str, info: ValidationInfo, ahead: timedelta) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise PydanticCustomError("time_format", "must be a time in RFC 3339")
    if isinstance(info.context, Lifetime):
        if moment > info.context.latest + ahead:
            raise PydanticCustomError("time_too_late", "{time} is in the future", {"time": text})
        if moment < info.context.earliest:
            message = "{time} is before the job was created"
            raise PydanticCustomError("time_too_early", message, {"time": text})
    return text


def _number(text: str) -> str:
    try:
        float(text)
    except ValueError:
        raise PydanticCustomError("number_format", "must be a decimal number as text") from None
    return text


def _role(text: str) -> str:
    if text not in list(Role):
        raise PydanticCustomError("role_name", "must be one of {roles}", {"roles": ", ".join(Role)})
    return text


Time = Annotated[str, AfterValidator(_time)]
"""A moment in RFC 3339, of which the operator reads only those that lie in a Lifetime."""

DueTime = Annotated[str, AfterValidator(_due_time)]
"""The like of Time, for something that is to happen within an hour."""

Decimal = Annotated[str, AfterValidator(_number)]
"""A number as text."""

RoleName = Annotated[str, Field(max_length=63), AfterValidator(_role)]
"""A role as text: chief, worker, ps or evaluator."""

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A number of things, of 32 bits as in all of Kubernetes."""

Natural = Annotated[int, Field(ge=0)]
"""A number that has no bound but 0."""
