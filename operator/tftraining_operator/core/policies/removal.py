"""What a policy returns when it wants a pod deleted."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tftraining_operator.core.observed import Pod


@dataclass(frozen=True, slots=True)
class Removal:
    """One pod to delete, when, and why."""

    pod: Pod
    due: datetime
    """Not before this time."""
    cause: str = ""
    """Why it is replaced, for the event; empty if nobody needs to be told."""
    grace: int | None = None
    """Seconds that it gets to end; None for its own terminationGracePeriodSeconds."""

    @property
    def is_replacement(self) -> bool:
        """Whether the pod is deleted only to be created again."""
        return bool(self.cause)


def first_of_each_pod(removals: Iterable[Removal]) -> tuple[Removal, ...]:
    """Keep one removal a pod: the first that was asked for."""
    found: dict[str, Removal] = {}
    for removal in removals:
        found.setdefault(removal.pod.uid, removal)
    return tuple(found.values())
