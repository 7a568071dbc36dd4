"""What Kueue writes into a Workload, for tests over the fake API; the real one writes in
tests/integration/test_kueue.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tftraining_operator.api import keys
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.times import rfc3339
from tftraining_operator.reconcile.store import Kind

if TYPE_CHECKING:
    from tests.unit.fakes import FakeCluster

_Object = dict[str, Any]

PREEMPTED = "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization"


def workloads(cluster: FakeCluster) -> list[_Object]:
    return [raw for (kind, _, _), raw in cluster.objects.items() if kind is Kind.WORKLOAD]


def the_workload(cluster: FakeCluster, extension: int = 0) -> _Object:
    """Return the Workload of the job, or one that extends it."""
    (found,) = (raw for raw in workloads(cluster) if Workload(raw).extension == extension)
    return found


def extensions(cluster: FakeCluster) -> dict[int, int]:
    """Return for how many workers each extension asks."""
    found = sorted(map(Workload, workloads(cluster)), key=lambda each: each.extension)
    return {each.extension: each.counts["worker"] for each in found if each.extension}


def conditions(raw: _Object) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    found = (raw.get("status") or {}).get("conditions") or []
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def summary(raw: _Object) -> _Object:
    """What a test compares of a Workload."""
    status = raw.get("status") or {}
    return {
        "conditions": conditions(raw),
        "admitted": "admission" in status,
        "reclaimable": status.get("reclaimablePods"),
        "podSets": [(each["name"], each["count"]) for each in raw["spec"]["podSets"]],
    }


def pending(
    cluster: FakeCluster, message: str, reason: str = "Pending", *, extension: int = 0
) -> None:
    """Kueue has no quota for it."""
    _write(cluster, extension=extension, QuotaReserved=("False", reason, message))


def admit(
    cluster: FakeCluster,
    workers: int | None = None,
    flavor: str = "",
    checks: Any = None,
    *,
    extension: int = 0,
) -> None:
    """Kueue admits it, with fewer workers if said so."""
    raw = the_workload(cluster, extension)
    counts = {each["name"]: each["count"] for each in raw["spec"]["podSets"]}
    if workers is not None:
        counts["worker"] = workers
    flavors = {"cpu": flavor} if flavor else {}
    assigned = [{"name": n, "count": c, "flavors": flavors} for n, c in counts.items()]
    admission = {"clusterQueue": "all", "podSetAssignments": assigned}
    _write(
        cluster,
        {"admission": admission, **({"admissionChecks": checks} if checks else {})},
        extension,
        QuotaReserved=("True", "QuotaReserved", "quota reserved in ClusterQueue all"),
        Admitted=("True", "Admitted", "the workload is admitted"),
        Evicted=("False", "QuotaReserved", "previously: evicted"),
    )


def evict(
    cluster: FakeCluster,
    reason: str = "Preempted",
    message: str = PREEMPTED,
    *,
    extension: int = 0,
) -> None:
    """Kueue wants its quota back; the job's operator has to give it."""
    _write(cluster, extension=extension, Evicted=("True", reason, message))


def delete(cluster: FakeCluster, extension: int = 0) -> None:
    """Somebody deletes it."""
    metadata = the_workload(cluster, extension)["metadata"]
    cluster._delete(Kind.WORKLOAD, metadata["namespace"], metadata["name"], metadata["uid"])


def unlabel(cluster: FakeCluster, extension: int = 0) -> None:
    """Somebody takes our label from it."""
    name = the_workload(cluster, extension)["metadata"]["name"]
    cluster.label(name, {keys.LABEL_JOB: None}, Kind.WORKLOAD)


def _write(
    cluster: FakeCluster,
    fields: _Object | None = None,
    extension: int = 0,
    **changes: tuple[str, str, str],
) -> None:
    def change(raw: _Object) -> None:
        status = raw.setdefault("status", {})
        status |= fields or {}
        known = [c for c in status.get("conditions") or [] if c["type"] not in changes]
        status["conditions"] = known + [
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "lastTransitionTime": rfc3339(cluster.clock()),
            }
            for kind, (value, reason, message) in changes.items()
        ]

    cluster.change(Kind.WORKLOAD, the_workload(cluster, extension), change)
