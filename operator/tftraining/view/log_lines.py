"""Which container logs of a job there are to read, and how their lines are merged and shown."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tftraining_operator.api.keys import CONTAINER, LABEL_INDEX, LABEL_ROLE, Role
from tftraining_operator.core import raw_pod
from tftraining_operator.core.text import printable
from tftraining_operator.core.times import rfc3339

_Object = dict[str, Any]

_ORDER = (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[-+]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class Source:
    """One run of one container: a restart in place begins another one."""

    pod: str
    uid: str
    container: str
    restarts: int
    role: Role
    index: int
    running: bool = field(default=False, compare=False)
    """Whether it may write more."""
    node: str = field(default="", compare=False)
    """Where its pod runs, which is asked for the log."""

    @property
    def label(self) -> str:
        """What its lines begin with, such as worker-1."""
        own = "" if self.container == CONTAINER else f"/{self.container}"
        return f"{self.role}-{self.index}{own}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log."""

    source: Source
    """The run of a container that wrote it."""
    time: str
    """In RFC 3339 with nanoseconds, UTC; "" where the API gave none."""
    text: str
    """The line, without its end."""

    @property
    def shown(self) -> str:
        """The text as a terminal shows it: a progress bar as it was last, and no controls."""
        return printable(last_state(self.text)).replace("\n", " ")

    def __str__(self) -> str:
        return f"{self.source.label} {self.shown}"


def sources(
    pods: Iterable[_Object],
    *,
    role: Role | None = None,
    index: int | None = None,
    container: str = CONTAINER,
    previous: bool = False,
) -> list[Source]:
    """Return the runs of a container whose logs can be read now, chief first.

    `previous` asks for the run before the last restart in place.
    """
    found = []
    for pod in pods:
        slot = slot_of(pod)
        if slot is None:
            continue
        statuses = {each.get("name"): each for each in raw_pod.all_statuses(pod)}
        status = statuses.get(container) or {}
        restarts = int(status.get("restartCount") or 0)
        began = any(raw_pod.state(status, kind) is not None for kind in ("running", "terminated"))
        if not (restarts if previous else began or restarts):
            continue
        source = Source(
            pod=pod["metadata"]["name"],
            uid=pod["metadata"].get("uid") or "",
            container=container,
            restarts=restarts,
            role=slot[0],
            index=slot[1],
            running=raw_pod.state(status, "running") is not None,
            node=(pod.get("spec") or {}).get("nodeName") or "",
        )
        if role in (None, source.role) and index in (None, source.index):
            found.append(source)
    return sorted(found, key=lambda each: (_ORDER.index(each.role), each.index))


def slot_of(pod: _Object) -> tuple[Role, int] | None:
    """Return a pod's role and index, None for one that is no pod of ours."""
    labels = pod["metadata"].get("labels") or {}
    if labels.get(LABEL_ROLE) not in list(Role) or not labels.get(LABEL_INDEX, "").isdecimal():
        return None
    return Role(labels[LABEL_ROLE]), int(labels[LABEL_INDEX])


def parse(source: Source, line: str) -> Line:
    """Parse a line that the API has prefixed with its time."""
    time, _, text = line.partition(" ")
    if moment := _in_utc(time):
        return Line(source, moment, text)
    return Line(source, "", line)


def last_state(text: str) -> str:
    """Return what is left of a line that was written over, as progress bars do."""
    states = (each.strip("\b") for each in text.split("\r"))
    return next((each for each in reversed([*states]) if each.strip()), "")


def _in_utc(time: str) -> str:
    """Return a time of the API in UTC, "" for what is none: a node writes that of its zone."""
    found = _TIME.fullmatch(time)
    if found is None or found[3] == "Z":
        return time if found is not None else ""
    try:
        moment = rfc3339(datetime.fromisoformat(f"{found[1]}{found[3]}"))
    except (ValueError, OverflowError):
        return ""
    return f"{moment.removesuffix('Z')}{found[2] or ''}Z"


def merged(lines: Iterable[Line]) -> list[Line]:
    """Return lines of several logs in the order of their times; each log keeps its own order."""
    last: dict[Source, str] = {}
    keyed = []
    for number, line in enumerate(lines):
        # A line without a time belongs to the one before it.
        last[line.source] = time = sort_key(line.time) or last.get(line.source, "")
        keyed.append((time, number, line))
    return [line for _, _, line in sorted(keyed, key=lambda each: each[:2])]


def sort_key(time: str) -> str:
    """Return a time of the API so that texts sort as times: it drops trailing zeros."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<9}" if seconds else ""


def label_width(shown: Sequence[Source]) -> int:
    """Return the width of the longest label."""
    return max((len(source.label) for source in shown), default=0)
