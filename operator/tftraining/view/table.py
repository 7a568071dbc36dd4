"""The table of `tftj list` and `tftj get`, with the columns of `kubectl get tftj`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tftraining_operator.core.text import one_line
from tftraining_operator.core.times import eta_text, seconds_since

_Object = dict[str, Any]

UNSEEN = "Unseen"
"""State of a job that no operator has taken care of yet."""
TRAINING = frozenset({"Running", "Evaluating"})
"""States of a job that trains: the status keeps the speed of before in all others as well."""
_GAP = "   "
COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Evaluating": "green",
    "Starting": "cyan",
    "Suspended": "cyan",
    "Restarting": "yellow",
    "Failed": "red",
    UNSEEN: "yellow",
}
"""Colours of states; whatever else keeps a job from running is yellow."""
OTHER_COLOUR = "yellow"


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    title: str
    value: Callable[[_Object, datetime], object]
    """The cell's content for a job, at a time."""
    wide: bool = False


def _at(path: str) -> Callable[[_Object, datetime], object]:
    def value(job: _Object, _now: datetime) -> object:
        found: Any = job
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    return value


def _time_left(job: _Object, now: datetime) -> object:
    trains = _at("status.state")(job, now) in TRAINING
    return _at("status.progress.etaText")(job, now) if trains else None


def age(created: str | None, now: datetime) -> str:
    """Return how long ago a time was, such as 2h5m; "" without a time."""
    return eta_text(max(0, int(seconds_since(created, now)))) if created else ""


COLUMNS = (
    Column("NAME", _at("metadata.name")),
    Column("STATE", lambda job, now: _at("status.state")(job, now) or UNSEEN),
    Column("WORKERS", _at("status.replicas.worker")),
    Column("PS", _at("status.replicas.ps")),
    Column("PROGRESS", _at("status.progress.percentText")),
    Column("RESTARTS", lambda job, now: _at("status.restarts")(job, now) or 0),
    Column("AGE", lambda job, now: age(job["metadata"].get("creationTimestamp"), now)),
    Column("STEP", _at("status.progress.step"), wide=True),
    Column("LOSS", _at("status.progress.loss"), wide=True),
    Column("ETA", _time_left, wide=True),
    Column("MODEL", _at("status.model.path"), wide=True),
    Column("MESSAGE", _at("status.message"), wide=True),
)
_NAMESPACE = Column("NAMESPACE", _at("metadata.namespace"))


def table(
    jobs: Sequence[_Object], now: datetime, *, wide: bool = False, everywhere: bool = False
) -> list[list[str]]:
    """Return the title row and one row for each job; `everywhere` adds the namespace."""
    columns = [column for column in COLUMNS if wide or not column.wide]
    columns = [_NAMESPACE, *columns] if everywhere else columns
    return [
        [column.title for column in columns],
        *([_cell(column.value(job, now)) for column in columns] for job in jobs),
    ]


def aligned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad the cells of all but the last column, so that joined rows form columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[-1:] = [0]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]


def lines(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Return rows as lines of text."""
    return [(indent + _GAP.join(row)).rstrip() for row in aligned(rows)]


def colour(state: str) -> str:
    """Return the colour of a state."""
    return COLOURS.get(state, OTHER_COLOUR)


def _cell(value: object) -> str:
    return "" if value is None else one_line(str(value), 200)
