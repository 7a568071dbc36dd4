"""Conditions: looked up, and set so that they change only when they say something else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Condition, ConditionStatus, Status
from tftraining_operator.core.text import printable
from tftraining_operator.core.times import rfc3339

_MESSAGE_LIMIT = 2000


def find(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of a type, None if it was never set."""
    # A plain loop: a pass gets here thirty times.
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None


def find_true(status: Status, kind: ConditionType) -> Condition | None:
    """Return the condition of a type if it is True."""
    found = find(status.conditions, kind)
    return found if found is not None and found.status is ConditionStatus.TRUE else None


def is_true(status: Status, kind: ConditionType) -> bool:
    """Tell whether a condition is True."""
    return find_true(status, kind) is not None


def is_finished(status: Status) -> bool:
    """Tell whether the job has ended, well or not.

    One condition that somebody else wrote is no end: the operator stores all of this at once.
    """
    ended = is_true(status, ConditionType.SUCCEEDED) != is_true(status, ConditionType.FAILED)
    return is_true(status, ConditionType.FINISHED) and ended and status.completion_time is not None


@dataclass(slots=True)
class ConditionWriter:
    """Builds the next list of conditions from the previous one."""

    previous: Sequence[Condition]
    generation: int
    now: datetime
    _next: dict[ConditionType, Condition] = field(default_factory=dict)

    def set(self, kind: ConditionType, *, value: bool | None, reason: str, message: str) -> None:
        """Set a condition; None is Unknown. The transition time moves only when status flips."""
        status = {
            True: ConditionStatus.TRUE,
            False: ConditionStatus.FALSE,
            None: ConditionStatus.UNKNOWN,
        }[value]
        before = find(self.previous, kind)
        since = (
            before.last_transition_time
            if before is not None and before.status is status
            else rfc3339(self.now)
        )
        self._next[kind] = Condition(
            type=kind.value,
            status=status,
            reason=str(reason),
            message=printable(message)[:_MESSAGE_LIMIT],
            last_transition_time=since,
            observed_generation=self.generation,
        )

    def keep(self, kind: ConditionType) -> None:
        """Leave a condition as it was."""
        if (before := find(self.previous, kind)) is not None:
            self._next[kind] = before

    def keep_all(self) -> None:
        """Leave all conditions as they were."""
        for kind in ConditionType:
            self.keep(kind)

    def result(self) -> list[Condition]:
        """Return the conditions in their fixed order."""
        return [self._next[kind] for kind in ConditionType if kind in self._next]
