"""A resource that only tests count: so many pods find a node, whatever the machine has."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.faults import require_own
from tools.cluster import Cluster
from tools.waiting import eventually

SLOT = "example.com/slot"
"""One for each pod that requests one."""

_POSTED_SECONDS = 60
"""A kubelet posts the status of its node every ten seconds."""


@contextmanager
def slots(cluster: Cluster, count: int) -> Iterator[None]:
    """Have a node offer so many slots, and no other one any, for the time of the block.

    Raises NoNodeError.
    """
    require_own(cluster, "slots of a node")
    node = cluster.kubectl("get", "nodes", "-o", "name").split()[0]
    try:
        _offer(cluster, node, str(count))
        yield
    finally:
        _offer(cluster, node, None)


def _offer(cluster: Cluster, node: str, count: str | None) -> None:
    """Change how many slots a node has, and wait until its kubelet says so."""
    path = f"/status/capacity/{SLOT.replace('/', '~1')}"
    change = {"op": "remove"} if count is None else {"op": "add", "value": count}
    patch = json.dumps([{**change, "path": path}])
    cluster.kubectl("patch", node, "--subresource=status", "--type=json", "-p", patch)

    def posted() -> bool:
        found = json.loads(cluster.kubectl("get", node, "-o", "json"))["status"]
        return bool(found["allocatable"].get(SLOT) == count)

    eventually(posted, f"{node} offers {count or 'no'} {SLOT}", _POSTED_SECONDS)
