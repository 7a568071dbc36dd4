"""When an object that a job has beside its pods is written: missing, or not as it has to be.

Asked by isolation.py and protection.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

_PAUSE = timedelta(seconds=10)
"""Between two corrections: with somebody else who writes it, there must be no hot loop."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What becomes of the object."""

    wanted: Mapping[str, Any] | None = None
    """The object that has to exist."""
    write: bool = False
    """Whether it is created now, or the one that exists corrected."""
    delete: bool = False
    due: datetime | None = None
    """When it is corrected, if not now."""

    def body(self, found: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the object to write. One that exists is never deleted only to be corrected."""
        if self.wanted is None or not self.write:
            return None
        body = dict(self.wanted)
        if found is not None:
            same = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
            body["metadata"] = {**body["metadata"], **same}
        return body


def upkeep(
    wanted: Mapping[str, Any],
    found: Mapping[str, Any] | None,
    corrected: datetime | None,
    now: datetime,
    *,
    refused: bool,
) -> Upkeep:
    """Decide about an object that has to exist; `corrected` is when it last was, by us."""
    if refused or is_in_place(wanted, found):
        return Upkeep(wanted)
    if found is not None and corrected is not None and now < corrected + _PAUSE:
        return Upkeep(wanted, due=corrected + _PAUSE)
    return Upkeep(wanted, write=True)


def is_in_place(wanted: Mapping[str, Any], found: Mapping[str, Any] | None) -> bool:
    """Tell whether an object exists as it has to be."""
    if found is None:
        return False
    labels = found["metadata"].get("labels") or {}
    has_labels: bool = wanted["metadata"]["labels"].items() <= labels.items()
    return has_labels and found.get("spec") == wanted["spec"]
