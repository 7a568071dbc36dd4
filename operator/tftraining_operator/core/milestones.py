"""How long the stages of a job took, from the difference of two statuses. Pure.

Each stage is found once: in the write of the status that first says that it is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Status
from tftraining_operator.core.conditions import find, find_true
from tftraining_operator.core.times import parse


class Stage(StrEnum):
    """A part of a job's life, by what it ends with."""

    QUEUE = "queue"
    """From its creation until it is started, so also while it is created suspended."""
    START = "start"
    """From its start, or its resumption, until all pods are ready."""
    FIRST_STEP = "first_step"
    """From the first time that training runs to the first step, in the first attempt."""
    TRAINING = "training"
    """From the first time that training runs until the chief has succeeded."""
    EVALUATION = "evaluation"
    """From the end of training until the job has finished, if the job has an evaluator."""


@dataclass(frozen=True, slots=True)
class StageEnd:
    """A stage that is over, and how long it took (s)."""

    stage: Stage
    seconds: float


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job: its reason, and how long (s) it existed."""

    succeeded: bool
    reason: str
    seconds: float


def stage_ends(before: Status, after: Status, created: str | None) -> Iterator[StageEnd]:
    """Yield the stages that a write of the status ends; `created` is the job's creationTimestamp.

    Times are whole seconds, by the clocks of operator, API server and nodes: never below 0.
    """
    if before.start_time is None and before.active_seconds == 0:
        yield from _stage(Stage.QUEUE, created, after.start_time)
    if (ready := _first_ready(before, after)) is not None:
        yield from _stage(Stage.START, after.start_time, ready)
    if after.attempt == 0 and not _has_stepped(before) and _has_stepped(after):
        progress = after.progress
        stepped = progress.last_step_time or progress.updated_at if progress else None
        yield from _stage(Stage.FIRST_STEP, after.first_running_time, stepped)
    if before.chief_completion_time is None:
        yield from _stage(Stage.TRAINING, after.first_running_time, after.chief_completion_time)
    if before.completion_time is None and _has_evaluator(after):
        yield from _stage(Stage.EVALUATION, after.chief_completion_time, after.completion_time)


def job_end(before: Status, after: Status, created: str | None) -> JobEnd | None:
    """Return the end of a job, if a write of the status is its end."""
    if before.completion_time is not None or after.completion_time is None:
        return None
    seconds = _seconds(created or after.start_time, after.completion_time)
    for kind in (ConditionType.SUCCEEDED, ConditionType.FAILED):
        if (found := find_true(after, kind)) is not None:
            return JobEnd(kind is ConditionType.SUCCEEDED, found.reason, seconds)
    return None


def restart_reason(before: Status, after: Status) -> str | None:
    """Return why a write of the status begins another attempt, None if it does not."""
    if after.last_restart is None or after.last_restart == before.last_restart:
        return None
    return after.last_restart.reason


def _stage(stage: Stage, began: str | None, ended: str | None) -> Iterator[StageEnd]:
    if began is not None and ended is not None:
        yield StageEnd(stage, _seconds(began, ended))


def _seconds(began: str | None, ended: str) -> float:
    return max(0.0, (parse(ended) - parse(began)).total_seconds()) if began else 0.0


def _first_ready(before: Status, after: Status) -> str | None:
    """Return when all pods were ready, if they were not before in this start."""
    now_ready = find_true(after, ConditionType.PODS_READY)
    was = find(before.conditions, ConditionType.PODS_READY)
    if now_ready is None or after.start_time is None or find_true(before, ConditionType.PODS_READY):
        return None
    # A later replacement of a pod makes the condition False at a later time than the start.
    if was is not None and parse(was.last_transition_time) > parse(after.start_time):
        return None
    return now_ready.last_transition_time


def _has_stepped(status: Status) -> bool:
    progress = status.progress
    return progress is not None and progress.step > (progress.resumed_step or 0)


def _has_evaluator(status: Status) -> bool:
    return any(role.name == Role.EVALUATOR and role.desired for role in status.roles)
