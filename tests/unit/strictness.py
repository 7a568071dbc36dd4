"""Which fields a kube-apiserver does not know, told from the official client's own models."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from kubernetes.aio import client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GENERIC = re.compile(r"(List|Dict)\[(?:str, )?(.+)\]")


def unknown_fields(kind: str, raw: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields of a pod or service that strict validation refuses."""
    return list(_unknown(raw, f"V1{kind}", ""))


def _unknown(value: Any, kind: str, path: str) -> Iterator[str]:
    found = _GENERIC.fullmatch(kind)
    if found is not None and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _unknown(each, found[2], f"{path}[{index}]")
    elif found is not None and isinstance(value, dict):
        for key, each in value.items():
            yield from _unknown(each, found[2], f"{path}.{key}")
    elif isinstance(value, dict) and (fields := _fields(kind)) is not None:
        for name, each in value.items():
            inner = f"{path}.{name}".removeprefix(".")
            if name in fields:
                yield from _unknown(each, fields[name], inner)
            else:
                yield inner


@cache
def _fields(kind: str) -> dict[str, str] | None:
    """Return the kinds of a model's fields by their names on the wire; None for what is free."""
    model: Any = getattr(client, kind, None)
    if model is None:
        return None
    return {model.attribute_map[name]: found for name, found in model.openapi_types.items()}
