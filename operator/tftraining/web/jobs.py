"""The jobs as they were last seen, and the course of their losses. No I/O.

The losses are those that were in the status while this process ran: the API keeps only the newest.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tftraining_operator.core.job import InvalidJobError, parse_job

from tftraining.view.training import Losses, Point, newest_loss

_Object = dict[str, Any]
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as it is now."""

    raw: _Object
    loss: Point | None
    """Step and loss, None if it has reported none."""


def read(raw: _Object, now: datetime) -> Seen:
    """Read a job as it was told. Ten thousand take seconds: not for the event loop."""
    try:
        return Seen(raw, newest_loss(parse_job(raw, now)))
    except InvalidJobError:
        return Seen(raw, None)


@dataclass(slots=True)
class Jobs:
    """The jobs of one namespace, or of all."""

    _jobs: dict[_Key, _Object] = field(default_factory=dict)
    _losses: dict[str, Losses] = field(default_factory=dict)
    """By the uid of the job."""

    def replace(self, listed: Iterable[Seen]) -> None:
        """Know these jobs and no others."""
        found = list(listed)
        present = {_key(each.raw) for each in found}
        for key in self._jobs.keys() - present:
            self.remove(self._jobs[key])
        for each in found:
            self.put(each)

    def put(self, seen: Seen) -> None:
        """Know a job as it is now."""
        raw = seen.raw
        before = self._jobs.get(_key(raw))
        if before is not None and _uid(before) != _uid(raw):
            self.remove(before)
        self._jobs[_key(raw)] = raw
        if seen.loss is not None:
            self._losses.setdefault(_uid(raw), Losses()).add(*seen.loss)

    def remove(self, raw: _Object) -> None:
        """Forget a job."""
        self._jobs.pop(_key(raw), None)
        self._losses.pop(_uid(raw), None)

    def all(self) -> list[_Object]:
        """Return the jobs by namespace and name."""
        return [self._jobs[key] for key in sorted(self._jobs)]

    def find(self, namespace: str, name: str) -> _Object | None:
        """Return a job, None if there is none."""
        return self._jobs.get((namespace, name))

    def losses(self, raw: _Object) -> list[Point]:
        """Return the steps and losses of a job."""
        found = self._losses.get(_uid(raw))
        return found.points if found is not None else []


def _key(raw: _Object) -> _Key:
    return raw["metadata"]["namespace"], raw["metadata"]["name"]


def _uid(raw: _Object) -> str:
    return str(raw["metadata"]["uid"])
