"""JSON merge patches (RFC 7386)."""

from collections.abc import Mapping
from typing import Any


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
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
