"""Devices of a node, by a real device plugin: the kubelet counts them and gives them to pods."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.faults import NoNodeError, control_plane
from tools.cluster import Cluster
from tools.cluster.in_node import running
from tools.waiting import eventually

GPU = "example.com/gpu"
VARIABLE = "DEVICES"
"""In which a container finds the names of its devices."""

_POSTED_SECONDS = 60
"""A kubelet posts the status of its node every ten seconds."""


@contextmanager
def gpus(cluster: Cluster, program: Path, count: int, resource: str = GPU) -> Iterator[None]:
    """Have so many GPUs on a node for the time of the block. Raises NoNodeError."""
    if cluster.engine is None:
        raise NoNodeError("a device plugin: the cluster of your KUBECONFIG is not ours to enter")
    node = control_plane(cluster)

    def offered() -> bool:
        found = json.loads(cluster.kubectl("get", "node", node, "-o", "json"))["status"]
        return bool(found["allocatable"].get(resource) == str(count))

    with running(cluster.engine, node, program, resource, str(count)):
        eventually(offered, f"{node} has {count} {resource}", _POSTED_SECONDS)
        yield
