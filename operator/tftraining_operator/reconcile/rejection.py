"""A job that cannot be carried out as it is written: what is stored, and until when it may wait.

Only a job that never ran is ended, and the time that it is suspended does not count: a training
resumes from its checkpoint, however late what refuses it is mended. Nor is one for which it is only
not known yet whether it can be carried out.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Status
from tftraining_operator.api.types import RunPolicy
from tftraining_operator.core.conditions import find, is_finished
from tftraining_operator.core.history import has_run
from tftraining_operator.core.job import run_policy
from tftraining_operator.core.salvage import stored_status
from tftraining_operator.core.status import refused_for_good, rejected_status
from tftraining_operator.core.times import parse

_AGAIN = timedelta(seconds=30)
"""What refuses a template may be mended without a word to us: a name, a policy, a webhook."""

_SINCE = (ConditionType.ACCEPTED, ConditionType.SUSPENDED)
"""Conditions whose latest change is when a job began to be rejected and not suspended."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """What follows from a rejection."""

    before: Status
    status: Status | None
    """The status to store, None if the job has ended already."""
    look_again: float | None
    """Seconds until the next look."""


def rejected(
    raw: dict[str, Any], reason: Reason, problem: str, now: datetime, *, may_end: bool
) -> Rejection:
    """Return what to store of a job that is rejected, and its end when that lasts too long."""
    created = raw["metadata"].get("creationTimestamp")
    before, _ = stored_status(raw.get("status"), created=created, now=now)
    if is_finished(before):
        return Rejection(before, None, None)
    generation = int(raw["metadata"].get("generation") or 1)
    policy = run_policy(raw)
    suspended = policy.get("suspend") is True
    status = rejected_status(before, generation, reason, problem, now, suspended=suspended)
    if suspended or not may_end or has_run(before) or before.start_time is not None:
        return Rejection(before, status, _AGAIN / timedelta(seconds=1))
    limit = _startup_limit(policy)
    deadline = _rejected_since(status, now) + timedelta(seconds=limit)
    if now >= deadline:
        message = f"{problem} (not corrected within startupDeadlineSeconds, {limit} s)"
        return Rejection(before, refused_for_good(status, generation, reason, message, now), 0.0)
    return Rejection(before, status, (min(deadline, now + _AGAIN) - now) / timedelta(seconds=1))


def _rejected_since(status: Status, now: datetime) -> datetime:
    """Return since when it is rejected and not suspended."""
    found = (find(status.conditions, kind) for kind in _SINCE)
    return max((parse(each.last_transition_time) for each in found if each), default=now)


def _startup_limit(policy: dict[str, Any]) -> int:
    given = policy.get("startupDeadlineSeconds")
    usable = isinstance(given, int) and not isinstance(given, bool) and given > 0
    return given if usable and given is not None else RunPolicy().startup_deadline_seconds
