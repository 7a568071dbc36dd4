"""The jobs as they were last seen, and the course of their losses. No I/O.

The losses are those that were in the status while this process ran: the API keeps only the newest.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tftraining_operator.core.job import InvalidJobError, parse_job

from tftraining.view.training import Losses
from tftraining.web.curve import Point

_Object = dict[str, Any]
_Key = tuple[str, str]


@dataclass(slots=True)
class Jobs:
    """The jobs of one namespace, or of all."""

    _jobs: dict[_Key, _Object] = field(default_factory=dict)
    _losses: dict[str, Losses] = field(default_factory=dict)
    """By the uid of the job."""

    def replace(self, listed: Iterable[_Object], now: datetime) -> None:
        """Know these jobs and no others."""
        raws = list(listed)
        present = {_key(raw) for raw in raws}
        for key in self._jobs.keys() - present:
            self.remove(self._jobs[key])
        for raw in raws:
            self.put(raw, now)

    def put(self, raw: _Object, now: datetime) -> None:
        """Know a job as it is now."""
        before = self._jobs.get(_key(raw))
        if before is not None and _uid(before) != _uid(raw):
            self.remove(before)
        self._jobs[_key(raw)] = raw
        try:
            job = parse_job(raw, now)
        except InvalidJobError:
            return
        self._losses.setdefault(_uid(raw), Losses()).see(job)

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
