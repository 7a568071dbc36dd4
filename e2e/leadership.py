"""Who held the operator's Lease, and for how long nobody did; used by scenarios.upgrade.

Times are this process's monotonic seconds at which a change arrived.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.api import open_api
from e2e.install import NAMESPACE, RELEASE
from tools.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Held:
    """A Lease as it was written."""

    at: float
    holder: str
    """Who holds it, "" for nobody."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A change of leader."""

    at: float
    """When the new one held the Lease."""
    gap: float
    """Seconds since the one before released it; if it did not, since it last renewed it."""


def handovers(writes: Iterable[Held]) -> list[Handover]:
    """Return each change of leader; `writes` are in order."""
    found, leader, until, released = list[Handover](), "", 0.0, False
    for write in writes:
        if not write.holder:
            if not released:
                until, released = write.at, True
            continue
        if leader not in ("", write.holder):
            found.append(Handover(write.at, write.at - until))
        leader, until, released = write.holder, write.at, False
    return found


@contextmanager
def leadership(cluster: Cluster) -> Iterator[list[Held]]:
    """Note every write of the operator's Lease for the time of the block."""
    writes: list[Held] = []

    def see(kind: str, lease: dict[str, Any]) -> None:
        if lease["metadata"]["name"] == f"{RELEASE}-operator" and kind != "DELETED":
            writes.append(Held(time.monotonic(), lease["spec"].get("holderIdentity") or ""))

    end = threading.Event()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    with open_api(cluster) as api:
        threading.Thread(target=api.watch, args=(path, see, end), daemon=True).start()
        try:
            yield writes
        finally:
            end.set()
