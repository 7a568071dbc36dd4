"""When a status is written that tells only of pods which become ready: not one by one.

Asked by the pass (reconcile/reconciler.py). All pods of a job start within moments of each other.
"""

from datetime import timedelta

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Condition, Status
from tftraining_operator.core.conditions import find

_HOLD = timedelta(seconds=1)
_HELD_A_SECOND = 100
_LONGEST_HOLD = timedelta(seconds=10)
_USUAL_WRITE = timedelta(milliseconds=25)
_LATEST = 6.0
"""So many times as long it waits at most."""

_TOLD = (ConditionType.PODS_READY, ConditionType.RUNNING)


def hold_time(jobs: int, write: timedelta) -> timedelta:
    """Return how long such a status waits at most for the last pod.

    Among so many jobs, where a write takes so long: what is written costs an API server that is
    late the time in which it could let pods start.
    """
    hold = max(_HOLD, min(timedelta(seconds=jobs / _HELD_A_SECOND), _LONGEST_HOLD))
    return hold * max(1.0, min(write / _USUAL_WRITE, _LATEST))


def only_starts(before: Status, after: Status) -> bool:
    """Tell whether a status brings nothing but some pods of a first start, and others are to come.

    No decision reads what such a status has anew.
    """
    return (
        before != after
        and before.start_time is not None
        and before.first_running_time is None
        and all(_is_starting(status) for status in (before, after))
        and _beside(before) == _beside(after)
    )


def _is_starting(status: Status) -> bool:
    found = find(status.conditions, ConditionType.PODS_READY)
    return found is not None and found.reason == Reason.STARTING


def _beside(status: Status) -> tuple[Status, list[Condition]]:
    counts: dict[str, object] = {
        "roles": [],
        "worker_replicas": 0,
        "replicas": None,
        "first_running_time": None,
        "state": "",
        "message": "",
        "conditions": [],
    }
    others = [each for each in status.conditions if each.type not in _TOLD]
    return status.model_copy(update=counts), others
