"""How a platform takes pods away: for a more important job or pod, or with their node."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from e2e.kueue import used
from e2e.platform_faults import no_room, tolerated
from e2e.scenarios.drill import Drill
from e2e.scenarios.space import idle_pod, job
from e2e.slots import SLOT, slots

_Object = dict[str, Any]

GRACE_SECONDS = 30
"""Kubernetes' default for terminationGracePeriodSeconds."""

_URGENT_SECONDS = 180
_LOW, _HIGH = "preemption-low", "preemption-high"

_SPOT = "example.com/spot"
_PODS = 4
"""Of the job: a slot for each."""


class Way(Protocol):
    """One way to take all pods of a job away, and to give it room again."""

    @property
    def name(self) -> str:
        """Return its name, for the program's output."""

    @property
    def what(self) -> str:
        """Return what takes the pods, for the page."""

    @property
    def waits(self) -> str:
        """Return words of the job's message while it waits."""

    def prepared(self, drill: Drill, job: _Object) -> AbstractContextManager[None]:
        """Have what it needs for the time of the block, and make the job fit for it."""

    def taken(self, drill: Drill) -> AbstractContextManager[None]:
        """Take the pods away; there is room again at the end of the block."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Kueue gives the quota to a job of a higher priority, which trains to its end."""

    name: str = "kueue"
    what: str = "Kueue, for a more important job in the same ClusterQueue"
    waits: str = "Kueue: couldn't assign flavors"

    @contextmanager
    def prepared(self, drill: Drill, job: _Object) -> Iterator[None]:
        """Have Kueue with a queue that has room for this job, and let the operator use it."""
        with used(drill.space.cluster) as kueue:
            kueue.queue(drill.space.name, drill.space.name, cpu="200m", memory="1200Mi")
            for name, value in ((_LOW, 1), (_HIGH, 100)):
                kueue.priority(name, value)
            job["metadata"]["labels"] = _labels(drill, _LOW)
            try:
                yield
            finally:
                drill.space.kubectl("delete", "tftj", "--all")

    @contextmanager
    def taken(self, drill: Drill) -> Iterator[None]:
        """Submit the more important job, and wait until it has succeeded."""
        urgent = job("urgent", "--epochs=1")
        urgent["metadata"]["labels"] = _labels(drill, _HIGH)
        drill.space.apply(urgent)
        yield
        drill.space.wait_for("Succeeded", name="urgent", seconds=_URGENT_SECONDS)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """kube-scheduler gives the node to a pod of a higher PriorityClass, until that is deleted."""

    name: str = "scheduler"
    what: str = "kube-scheduler, for a pod of a higher PriorityClass"
    waits: str = f"Insufficient {SLOT}"

    @contextmanager
    def prepared(self, drill: Drill, job: _Object) -> Iterator[None]:
        """Have a node with as many slots as the job has pods."""
        cluster = drill.space.cluster
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 100}
        drill.space.apply({**priority, "metadata": {"name": _HIGH}})
        (container,) = job["spec"]["template"]["spec"]["containers"]
        for kind in ("requests", "limits"):
            container["resources"][kind][SLOT] = "1"
        try:
            with slots(cluster, _PODS):
                yield
        finally:
            drill.space.kubectl("delete", "priorityclass", _HIGH)

    @contextmanager
    def taken(self, drill: Drill) -> Iterator[None]:
        """Create the more important pod, and delete it."""
        needs = {SLOT: str(_PODS)}
        resources = {"requests": needs, "limits": needs}
        drill.space.apply(idle_pod(_HIGH, resources=resources, priorityClassName=_HIGH))
        yield
        drill.space.kubectl("delete", "pod", _HIGH)


@dataclass(frozen=True, slots=True)
class Drain:
    """An administrator drains the job's nodes, and lets pods on them again."""

    name: str = "drain"
    what: str = "`kubectl drain` of its nodes"
    waits: str = "unschedulable"

    @contextmanager
    def prepared(self, drill: Drill, job: _Object) -> Iterator[None]:  # noqa: ARG002 - any job
        """Have nothing."""
        yield

    @contextmanager
    def taken(self, drill: Drill) -> Iterator[None]:
        """Drain the nodes of this job's pods, and uncordon them."""
        nodes = drill.space.cluster.kubectl("get", "nodes", "-o", "name").split()
        selector = f"--pod-selector=tftraining.dev/job={drill.job}"
        with no_room(drill.space.cluster):
            drill.space.kubectl("drain", *nodes, selector, "--delete-emptydir-data")
            yield


@dataclass(frozen=True, slots=True)
class Taint:
    """What handles the notices of spot nodes taints the nodes; others come, or these again."""

    name: str = "taint"
    what: str = "a taint `NoExecute` on its nodes"
    waits: str = "untolerated taint"

    @contextmanager
    def prepared(self, drill: Drill, job: _Object) -> Iterator[None]:  # noqa: ARG002 - any job
        """Have all other pods of the cluster stay."""
        with tolerated(drill.space.cluster, _SPOT):
            yield

    @contextmanager
    def taken(self, drill: Drill) -> Iterator[None]:
        """Taint the nodes, and take the taint away."""
        cluster = drill.space.cluster
        cluster.kubectl("taint", "nodes", "--all", f"{_SPOT}=terminating:NoExecute")
        try:
            yield
        finally:
            cluster.kubectl("taint", "nodes", "--all", f"{_SPOT}-")


WAYS: tuple[Way, ...] = (Queue(), Scheduler(), Drain(), Taint())


def _labels(drill: Drill, priority: str) -> dict[str, str]:
    return {
        "kueue.x-k8s.io/queue-name": drill.space.name,
        "kueue.x-k8s.io/priority-class": priority,
    }
