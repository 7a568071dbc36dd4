"""Reports of chief and evaluator, and what of them goes into the status."""

import json
import math
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import (
    BestCheckpoint,
    CheckpointStatus,
    Evaluation,
    Metric,
    ModelStatus,
    Progress,
    Status,
)
from tftraining_operator.core.pace import UNUSED
from tftraining_operator.core.text import one_line
from tftraining_operator.core.times import eta_text, parse, rfc3339

WRITE_INTERVAL = timedelta(seconds=5)
"""Writes that tell of progress only are at least this far apart: each wakes every watcher."""

WRITES_PER_SECOND = 20
"""Of all jobs together: where more report than that allows, each is written less often, and those
that have news at the same moment take turns."""

QUIET_INTERVAL = timedelta(minutes=5)
"""In such a crowd, how long progress of less than a percent is kept back."""

FRESH = timedelta(seconds=15)
"""An older report proves nothing about now: its chief may hang or be cut off from us."""

ASKED_PER_SECOND = 50
"""Of all jobs together: where more report than that allows, each is asked less often."""

_SILENCE = 60.0
_STEPS_MISSED = 10
_LONGEST_SILENCE = 3600.0

_LONGEST_ASK_INTERVAL = timedelta(minutes=1)
_EVALUATOR_INTERVALS = 3
"""In a crowd, an evaluator is asked so much less often: it has news only of each checkpoint."""
_FRESH_INTERVALS = 1.6
"""For so many intervals between two requests a report counts at least."""

MAX_METRICS = 32

_MAX_ETA_SECONDS = 100 * 365 * 24 * 3600
"""Whatever is to take longer is a rate just above 0, and no estimate."""


_LINE = AfterValidator(lambda text: one_line(text, len(text)))
"""A user's container wrote it: control characters must reach neither status nor log."""


class _Document(BaseModel):
    # Lenient: the document comes out of a user's container, of any version.
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )


class ReportedCheckpoint(_Document):
    """A checkpoint, as the trainer reports it."""

    step: Annotated[int, Field(ge=0, lt=2**63)]
    path: Annotated[str, Field(max_length=4096), _LINE]
    time: Annotated[str, Field(max_length=64), _LINE]


class ReportedModel(_Document):
    """An exported model, as the trainer reports it."""

    step: Annotated[int, Field(ge=0, lt=2**63)]
    path: Annotated[str, Field(max_length=1024), _LINE]
    formats: Annotated[list[Annotated[str, Field(max_length=63), _LINE]], Field(max_length=8)]


class ReportedBest(_Document):
    """The best checkpoint, as the trainer reports it."""

    step: Annotated[int, Field(ge=0, lt=2**63)]
    metric: Annotated[str, Field(max_length=1024), _LINE]
    value: float
    path: Annotated[str, Field(max_length=1024), _LINE]
    export_path: Annotated[str, Field(max_length=1024), _LINE] | None = None


class PeerCause(StrEnum):
    """Why a server counts as unreachable, as the trainer reports it."""

    NOT_ASKED = "NotAsked"
    NOT_RESOLVED = "NotResolved"
    REFUSED = "Refused"
    TIMED_OUT = "TimedOut"
    FAILED = "Failed"


class UnreachablePeer(_Document):
    """A server that does not answer the chief."""

    task: Annotated[str, Field(max_length=253), _LINE]
    """Role and index, such as worker-1."""
    seconds: Annotated[float, Field(ge=0)]
    """For how long it has not answered."""
    cause: Annotated[str, Field(max_length=253), _LINE] = ""
    """A PeerCause; empty from an older trainer, unknown from a newer one."""
    reason: Annotated[str, Field(max_length=253), _LINE] = ""
    address: Annotated[str, Field(max_length=253), _LINE] | None = None
    """IP address that was asked; None if the name has none, and from an older trainer."""


class Report(_Document):
    """What chief or evaluator serve at /progress; see tests/contract/progress.json."""

    received: Annotated[datetime | None, Field(exclude=True)] = None
    """When the operator got it; in no document."""
    fresh_for: Annotated[timedelta, Field(exclude=True)] = FRESH
    """For how long it counts; in no document."""
    pod_uid: Annotated[str, Field(exclude=True)] = ""
    """Which pod it is of, as addresses are reused; in no document."""
    unreachable: list[UnreachablePeer] = []
    """Servers that do not answer now."""
    seconds_since_step: Annotated[float | None, Field(ge=0)] = None
    """How long ago the newest step was made, less what activities took since."""
    activity: Annotated[str, Field(max_length=63), _LINE] | None = None
    """What the chief has done for a while instead of steps: "callbacks", "checkpoint",
    "input", "validation" or "export"."""
    resumed_step: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    """Step of the checkpoint that this chief resumed from."""
    waiting_for: list[Annotated[str, Field(max_length=253), _LINE]] = []
    """Peers that the chief has not reached yet, such as worker-1."""
    step: Annotated[int, Field(ge=0, lt=2**63)] = 0
    total_steps: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    steps_per_second: float | None = None
    repeated_examples: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Trained on once more, as a worker was lost that had them in hand."""
    # A bound makes pydantic look into the text: half a character cannot be stored.
    metrics: dict[Annotated[str, Field(max_length=1024), _LINE], float] = {}
    last_checkpoint: ReportedCheckpoint | None = None
    model: ReportedModel | None = None
    best: ReportedBest | None = None

    @property
    def has_steps(self) -> bool:
        """Whether it tells of steps; a chief that only waits knows of none."""
        return bool(self.step or self.total_steps)

    @property
    def completed(self) -> bool:
        """Whether all steps are made."""
        return self.total_steps is not None and self.step >= self.total_steps

    @property
    def patience(self) -> timedelta:
        """For how long no new step is no stall: longer where a step takes long."""
        rate = self.steps_per_second or 0.0
        steps = _STEPS_MISSED / rate if rate > 0 else 0.0
        return timedelta(seconds=min(max(_SILENCE, steps), _LONGEST_SILENCE))

    def standing(self, timeout: float | None = None) -> int:
        """Return for how many limits the newest step is too old, by the pod's own word.

        They are `patience`, and the job's own stall timeout (s) if it has one.
        """
        age = self.seconds_since_step
        if age is None or self.completed:
            return 0
        return (age >= self.patience.total_seconds()) + (timeout is not None and age >= timeout)

    def only_progresses(self, before: "Report | None", timeout: float | None) -> bool:
        """Tell whether nothing but steps was made since `before`: no decision waits for that.

        The first of a pod is no more than that, unless it cannot reach another or makes no steps.
        """
        if self.completed:
            return False
        if before is None:
            return not (self.unreachable or self.standing(timeout))
        return self._stands_as(before, timeout) and _agree(self, before, _BESIDE_STEPS)

    def says_the_same(self, other: "Report", timeout: float | None) -> bool:
        """Tell whether another report brings nothing new but time that has passed, and no stall."""
        return self._stands_as(other, timeout) and _agree(self, other, _TIMELESS)

    def _stands_as(self, other: "Report", timeout: float | None) -> bool:
        return self.standing(timeout) == other.standing(timeout)


_TIMELESS = frozenset(Report.model_fields) - {"received", "seconds_since_step"}
_BESIDE_STEPS = _TIMELESS - {"step", "steps_per_second", "metrics", "last_checkpoint"}
"""What not every report of a training has anew."""


def _agree(one: Report, other: Report, names: frozenset[str]) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in names)


def parse_report(text: str | bytes, pod_uid: str = "") -> Report | None:
    """Parse a report; None for anything that is not one, such as a log's tail."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            return None
        # A document that names these itself is not believed.
        ours = {"received": None, "freshFor": FRESH, "podUid": pod_uid}
        return Report.model_validate(document | ours)
    except (ValueError, RecursionError):  # ValidationError is a ValueError
        return None


def progress_of(report: Report, previous: Progress | None, now: datetime) -> Progress:
    """Return the status' progress for a chief's report."""
    metrics = _metrics(report)
    rate = report.steps_per_second
    percent = _percent(report.step, report.total_steps)
    eta = _eta(report.step, report.total_steps, rate)
    if previous is not None and previous.step == report.step:
        updated_at, last_step_time = previous.updated_at, previous.last_step_time
    else:
        updated_at, last_step_time = rfc3339(now), rfc3339(step_time(report, now))
    return Progress(
        step=report.step,
        total_steps=report.total_steps,
        percent=percent,
        percent_text=None if percent is None else f"{percent}%",
        eta_seconds=eta,
        eta_text=None if eta is None else eta_text(eta),
        steps_per_second=None if rate is None else number(rate),
        metrics=metrics,
        loss=next((m.value for m in metrics if m.name == "loss"), None),
        updated_at=updated_at,
        last_step_time=last_step_time,
        resumed_step=report.resumed_step,
    )


def step_time(report: Report, now: datetime) -> datetime:
    """Return when the newest step of a report was made; a poll finds it only some seconds later."""
    age = min(report.seconds_since_step or 0.0, _MAX_ETA_SECONDS)
    return (report.received or now) - timedelta(seconds=age)


def checkpoint_of(report: Report) -> CheckpointStatus | None:
    """Return the status' lastCheckpoint for a report."""
    found = report.last_checkpoint
    if found is None:
        return None
    return CheckpointStatus(step=found.step, path=found.path, time=found.time)


def model_of(report: Report) -> ModelStatus | None:
    """Return the status' model for a report; None before there is one."""
    found = report.model
    if found is None:
        return None
    return ModelStatus(
        step=found.step,
        path=found.path,
        formats=found.formats,
        metrics=_metrics(report),
    )


def best_of(report: Report) -> BestCheckpoint | None:
    """Return the status' best checkpoint for a report; None if none is kept."""
    found = report.best
    if found is None:
        return None
    return BestCheckpoint(
        step=found.step,
        metric=Metric(name=found.metric[:63], value=number(found.value)),
        path=found.path,
        export_path=found.export_path,
    )


def evaluation_of(report: Report, *, final: bool) -> Evaluation | None:
    """Return the status' evaluation for an evaluator's report; None before the first one."""
    metrics = _metrics(report)
    return Evaluation(step=report.step, metrics=metrics, final=final) if metrics else None


def write_interval(jobs: int) -> timedelta:
    """Return how far apart writes of one job's progress are where so many jobs report."""
    return max(WRITE_INTERVAL, timedelta(seconds=jobs / WRITES_PER_SECOND))


def asked_per_second(role: Role) -> int:
    """Return how many pods of that role are asked in a second where many report."""
    return ASKED_PER_SECOND // (_EVALUATOR_INTERVALS if role is Role.EVALUATOR else 1)


def asked_within(jobs: int) -> timedelta:
    """Return in how long the last of so many new chiefs is asked for the first time."""
    return max(timedelta(seconds=jobs / asked_per_second(Role.CHIEF)) - UNUSED, timedelta(0))


def ask_interval(jobs: int, least: timedelta, role: Role) -> timedelta:
    """Return how far apart requests to a pod of that role are where so many jobs report."""
    crowded = min(timedelta(seconds=jobs / ASKED_PER_SECOND), _LONGEST_ASK_INTERVAL)
    return max(least, crowded * _EVALUATOR_INTERVALS if role is Role.EVALUATOR else crowded)


def fresh_for(interval: timedelta) -> timedelta:
    """Return for how long a report counts if the next one is asked for after an interval."""
    return max(FRESH, _FRESH_INTERVALS * interval)


def next_write(
    before: Status, after: Status, now: datetime, interval: timedelta = WRITE_INTERVAL
) -> datetime | None:
    """Return when a status that differs by progress only may be written; None for at once."""
    told = told_by(before)
    if told is None or not only_reports(before, after):
        return None
    percent = after.progress.percent if after.progress is not None else None
    beside = {"progress": None}
    more = before.model_copy(update=beside) != after.model_copy(update=beside)
    due = _due(told, percent, interval, says_more=more)
    return due if due > now else None


class Told(NamedTuple):
    """What a status has of a training's steps, as far as it matters for when it gets more."""

    updated_at: str
    percent: int | None
    checkpoint: int | None
    """Step of the last checkpoint."""


def told_by(status: Status) -> Told | None:
    """Return what a status has of steps, None before the first."""
    known, saved = status.progress, status.last_checkpoint
    if known is None:
        return None
    return Told(known.updated_at, known.percent, None if saved is None else saved.step)


def news_due(told: Told, report: Report, interval: timedelta) -> datetime:
    """Return when the steps of a report may be written, by what a status has of them now."""
    newest = report.last_checkpoint
    more = newest is not None and newest.step != told.checkpoint
    return _due(told, _percent(report.step, report.total_steps), interval, says_more=more)


def only_reports(before: Status, after: Status) -> bool:
    """Tell whether a status brings nothing but what the job's pods report of themselves."""
    first = before.progress is None and after.progress is not None
    return _unreported(before, first=first) == _unreported(after, first=first)


def _unreported(status: Status, *, first: bool) -> Status:
    """Return a status without what pods report; of a first report, also without its words."""
    silent: dict[str, object] = dict.fromkeys(
        ("progress", "repeated_examples", "last_checkpoint", "best", "evaluation")
    )
    if first:
        conditions = [
            each.model_copy(update={"message": ""}) if each.type == ConditionType.RUNNING else each
            for each in status.conditions
        ]
        silent |= {"progress_attempt": None, "message": "", "conditions": conditions}
    return status.model_copy(update=silent)


def is_progress_only(before: Status, after: Status) -> bool:
    """Tell whether a status tells of nothing but steps: what was stored began no deadline."""
    silent = {"progress": None, "last_checkpoint": None}
    return (
        before.chief_completion_time is None
        and before.progress is not None
        and before.model_copy(update=silent) == after.model_copy(update=silent)
    )


def _due(told: Told, percent: int | None, interval: timedelta, *, says_more: bool) -> datetime:
    crowded = interval > WRITE_INTERVAL
    is_news = says_more or percent is None or percent != told.percent
    wait = interval if is_news or not crowded else max(interval, QUIET_INTERVAL)
    return parse(told.updated_at) + wait


def number(value: float) -> str:
    """Format a metric: four significant digits."""
    return f"{value:.4g}"


def _metrics(report: Report) -> list[Metric]:
    return [
        Metric(name=name[:63], value=number(value))
        for name, value in sorted(report.metrics.items())[:MAX_METRICS]
    ]


def _percent(step: int, total: int | None) -> int | None:
    return min(100, step * 100 // total) if total else None


def _eta(step: int, total: int | None, rate: float | None) -> int | None:
    if total is None or not rate or not math.isfinite(rate) or rate <= 0:
        return None
    seconds = max(0, total - step) / rate
    return math.ceil(seconds) if seconds <= _MAX_ETA_SECONDS else None
