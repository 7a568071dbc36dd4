"""The status that Kubernetes would report for a pod whose container is a local process. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.core.times import rfc3339

from tftraining.cli.local.addresses import HOST

_Object = dict[str, Any]

_RAN_WELL = timedelta(seconds=10)
_LONGEST_PAUSE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one process."""

    code: int
    message: str
    started_at: datetime
    finished_at: datetime

    @property
    def ran_well(self) -> bool:
        """Whether it ran for so long that its next start need not wait."""
        return self.finished_at - self.started_at >= _RAN_WELL


@dataclass(frozen=True, slots=True)
class Life:
    """The history of a pod's process."""

    created_at: datetime
    running_since: datetime | None = None
    ready_since: datetime | None = None
    ended: Ended | None = None
    """The newest end, also of a process that was restarted since."""
    restarts: int = 0
    deleted_until: datetime | None = None
    """When a pod that is being deleted has to be gone."""
    grace_seconds: int | None = None
    """Seconds that a pod that is being deleted has to end."""


def is_restarted(policy: str, ended: Ended) -> bool:
    """Tell whether a pod's restartPolicy has the process started again in place."""
    return policy == "Always" or (policy == "OnFailure" and ended.code != 0)


def pause(quick_deaths: int) -> timedelta:
    """Return how long to wait before the next start: 0, 1, 2, 4, 8, 10 s, as often as it died."""
    if quick_deaths <= 1:
        return timedelta()
    return min(timedelta(seconds=2 ** min(quick_deaths - 2, 10)), _LONGEST_PAUSE)


def metadata(life: Life) -> _Object:
    """Return the times of creation and deletion for a pod's metadata."""
    fields: _Object = {"creationTimestamp": rfc3339(life.created_at)}
    if life.deleted_until is not None:
        fields["deletionTimestamp"] = rfc3339(life.deleted_until)
        fields["deletionGracePeriodSeconds"] = life.grace_seconds
    return fields


def status(life: Life, policy: str) -> _Object:
    """Return a pod's status; `policy` is its restartPolicy."""
    ended, since = life.ended, life.running_since
    container: _Object = {"name": keys.CONTAINER, "restartCount": life.restarts, "state": {}}
    phase = "Running" if since is not None else "Pending"
    if since is not None:
        container["state"] = {"running": {"startedAt": rfc3339(since)}}
        if ended is not None:
            container["lastState"] = {"terminated": _terminated(ended)}
    elif ended is not None and is_restarted(policy, ended) and life.deleted_until is None:
        phase = "Running"
        container["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": ended.message}}
        container["lastState"] = {"terminated": _terminated(ended)}
    elif ended is not None:
        phase = "Failed" if ended.code else "Succeeded"
        container["state"] = {"terminated": _terminated(ended)}
    ready = since is not None and life.ready_since is not None
    container["ready"] = ready
    condition = {"type": "Ready", "status": str(ready)}
    if life.ready_since is not None:
        condition["lastTransitionTime"] = rfc3339(life.ready_since)
    return {
        "phase": phase,
        "podIP": HOST,
        "conditions": [condition],
        "containerStatuses": [container],
    }


def _terminated(ended: Ended) -> _Object:
    return {
        "exitCode": ended.code,
        "reason": "Error" if ended.code else "Completed",
        "message": ended.message,
        "startedAt": rfc3339(ended.started_at),
        "finishedAt": rfc3339(ended.finished_at),
    }
