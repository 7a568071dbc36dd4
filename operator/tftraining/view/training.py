"""What `tftj progress` shows of a training: one line for pipes, several for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.messages import pods_not_ready
from tftraining_operator.core.observed import observe

from tftraining.view.table import TRAINING

_Object = dict[str, Any]
Point = tuple[int, float]
"""A step and its loss."""

_BARS = "▁▂▃▄▅▆▇█"
_KEPT = 400
ROLE_COLOURS = {
    Role.CHIEF: "green",
    Role.WORKER: "cyan",
    Role.PS: "magenta",
    Role.EVALUATOR: "yellow",
}


@dataclass(slots=True)
class Losses:
    """The course of the losses that were seen: each step once, in order, and a limited number."""

    points: list[Point] = field(default_factory=list)
    """Steps and losses."""
    _spacing: float = 0.0
    """Steps between two points at least; the newest may be closer."""

    @property
    def values(self) -> list[float]:
        """The losses alone."""
        return [value for _, value in self.points]

    def see(self, job: Job) -> None:
        """Remember a job's present loss."""
        if (point := newest_loss(job)) is not None:
            self.add(*point)

    def add(self, step: int, loss: float) -> None:
        """Remember the loss of a step.

        Steps that are repeated, because training resumed from a checkpoint, replace those of
        before. When there are too many points, every second one is dropped.
        """
        if self.points and self.points[-1][0] == step:
            return
        before = [point for point in self.points if point[0] < step]
        if len(before) > 1 and before[-1][0] - before[-2][0] < self._spacing:
            before.pop()
        self.points = [*before, (step, loss)]
        if len(self.points) > _KEPT:
            self.points = self.points[::2]
            self._spacing = (self.points[-1][0] - self.points[0][0]) / len(self.points)


def newest_loss(job: Job) -> Point | None:
    """Return the step that a job has reported and its loss, None without a loss."""
    progress = job.status.progress
    if progress is None or progress.loss is None:
        return None
    try:
        return progress.step, float(progress.loss)
    except ValueError:  # not of the operator's making
        return None


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the newest values as a line of bars, `width` characters at most.

    Values that are no finite numbers are blank.
    """
    shown = list(values)[-width:]
    finite = [value for value in shown if abs(value) < float("inf")]
    if len(finite) < 2:  # noqa: PLR2004 - one value has no course
        return ""
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        _BARS[round((value - low) * scale)] if abs(value) < float("inf") else " " for value in shown
    )


def describe_roles(job: Job) -> str:
    """Return the job's roles with their replicas, such as `chief, 2 workers, ps, evaluator`."""
    roles = []
    for role in (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR):
        count = job.desired(role)
        plural = "" if role is Role.PS or count == 1 else "s"
        if count:
            roles.append(f"{count} {role}{plural}" if count > 1 else str(role))
    return ", ".join(roles)


def rates(job: Job) -> str:
    """Return step, percent and loss, of a job that trains also speed and time left.

    "" before the first report.
    """
    progress = job.status.progress
    if progress is None:
        return ""
    total = "" if progress.total_steps is None else f" of {progress.total_steps}"
    trains = job.status.state in TRAINING
    goes_on = progress.eta_text is not None and progress.step != progress.total_steps
    parts = [
        f"step {progress.step}{total}",
        progress.percent_text or "",
        f"{progress.steps_per_second} steps/s" if trains and progress.steps_per_second else "",
        f"loss {progress.loss}" if progress.loss else "",
        f"{progress.eta_text} left" if trains and goes_on else "",
    ]
    return ", ".join(part for part in parts if part)


def plain(job: Job, reason: str) -> str:
    """Return the progress as one line for a pipe; `reason` is why the job does not run."""
    progress = job.status.progress
    state = job.status.state or "Starting"
    if state not in TRAINING or progress is None:
        return reason
    return f"{state}: {rates(job)}"


def role_lines(job: Job, pods: Sequence[_Object], now: datetime) -> list[tuple[Role, str]]:
    """Return one line for each role that the job has: how many are ready, and who is not."""
    causes = pods_not_ready(job, observe(job, pods, (), now), Facts())
    found = []
    for role in (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR):
        wanted = job.desired(role)
        prefix = f"{job.name}-{role}-"
        missing = [(name, cause) for name, cause in causes if name.startswith(prefix)]
        missing = [each for each in missing if each[0].removeprefix(prefix).isdecimal()]
        if not wanted:
            continue
        text = f"{role:9} {wanted - len(missing)}/{wanted}"
        if missing:
            name, cause = missing[0]
            reason = f": {cause.reason}" if cause is not None else ""
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            text += f"  not ready: {name.removeprefix(job.name + '-')}{more}{reason}"
        found.append((role, text))
    return found
