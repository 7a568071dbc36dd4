"""What is written into the status of a Workload of Kueue, as merge patches. Pure.

Kueue writes the conditions QuotaReserved, Admitted, Evicted and Requeued; the job's operator ends
them when the job has no pods any more, and tells of the pods and of the end.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tftraining_operator.core.schedulers.kueue_workload import PREEMPTED, Workload
from tftraining_operator.core.schedulers.scheduler import condition
from tftraining_operator.core.times import parse, rfc3339

_Object = dict[str, Any]

_REQUEUED_AT_ONCE = frozenset({PREEMPTED, "NodeFailures"})
"""Evictions after which a job may be admitted again at any time; others end with what caused them,
such as a queue that is stopped, and Kueue says when."""

_MESSAGE_LIMIT = 1024


def released(workload: Workload, now: datetime) -> _Object:
    """Return the status patch that gives back the quota of an evicted Workload without pods.

    Until it is written, who was to get the quota waits. All of it goes in one write: one that is
    still Admitted would hold its quota.
    """
    reason, message = workload.eviction
    # Kueue ends this condition only if it has exactly this reason, whatever the cause was.
    requeued = "Deactivated" if reason.startswith("Deactivated") else reason
    changes = {
        "QuotaReserved": ("False", "Pending", message),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
        "Requeued": (str(reason in _REQUEUED_AT_ONCE), requeued, message),
        "PodsReady": ("False", "WaitForStart", "the job has no pods"),
    }
    status = workload.raw.get("status") or {}
    patch: _Object = {
        "admission": None,
        "reclaimablePods": None,
        "conditions": _conditions(workload, changes, now),
    }
    was = condition(workload.raw, "Admitted")
    if was.get("status") == "True":
        spent = max(0, int((now - parse(was["lastTransitionTime"])).total_seconds()))
        name = "accumulatedPastExecutionTimeSeconds"
        patch[name] = int(status.get(name) or 0) + spent
    return patch


def ended(workload: Workload, message: str, now: datetime, *, well: bool) -> _Object:
    """Return the status patch of a job that has ended."""
    reason = "Succeeded" if well else "Failed"
    changes = {
        "Finished": ("True", reason, message),
        "QuotaReserved": ("False", "Finished", "the job has finished"),
        "Admitted": ("False", "Finished", "the job has finished"),
    }
    if not workload.is_true("QuotaReserved") and not workload.is_true("Admitted"):
        changes = {"Finished": changes["Finished"]}
    return {"admission": None, "conditions": _conditions(workload, changes, now)}


def observed_pods(
    workload: Workload, unneeded: Mapping[str, int], now: datetime, *, ready: bool
) -> _Object:
    """Return the status patch that tells of the pods of an admitted job; {} for nothing new.

    `unneeded` is the number of pods by role that will not be created again. What was given back is
    never asked for again: Kueue refuses that.
    """
    before = workload.reclaimable
    given = {
        name: max(min(unneeded.get(name, 0), count), before.get(name, 0))
        for name, count in workload.counts.items()
    }
    given = {name: count for name, count in given.items() if count or name in before}
    patch: _Object = {}
    if given != dict(before):
        patch["reclaimablePods"] = [{"name": n, "count": c} for n, c in given.items()]
    known = condition(workload.raw, "PodsReady")
    changed = _pods_ready(known, ready=ready)
    if changed[:2] != (known.get("status"), known.get("reason")):
        patch["conditions"] = _conditions(workload, {"PodsReady": changed}, now)
    return patch


def _pods_ready(known: _Object, *, ready: bool) -> tuple[str, str, str]:
    was, reason = known.get("status") == "True", known.get("reason")
    if ready:
        again = reason in ("WaitForRecovery", "Recovered")
        return "True", "Recovered" if again else "Started", "all pods are ready"
    lost = was or reason == "WaitForRecovery"
    return "False", "WaitForRecovery" if lost else "WaitForStart", "not all pods are ready"


def _conditions(
    workload: Workload, changes: Mapping[str, tuple[str, str, str]], now: datetime
) -> list[_Object]:
    """Return all conditions: a merge patch replaces the list."""
    known = list((workload.raw.get("status") or {}).get("conditions") or [])
    found = [each for each in known if each["type"] not in changes]
    for kind, (status, reason, message) in changes.items():
        before = condition(workload.raw, kind)
        same = before.get("status") == status
        found.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message[:_MESSAGE_LIMIT],
                "lastTransitionTime": before["lastTransitionTime"] if same else rfc3339(now),
                "observedGeneration": workload.raw["metadata"].get("generation", 1),
            }
        )
    return found
