"""How a platform takes the pods of a job away: Kueue, for a more important job."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.kueue import used
from e2e.scenarios.drill import Drill
from e2e.scenarios.space import job

_Object = dict[str, Any]

GRACE_SECONDS = 30
"""Kubernetes' default for terminationGracePeriodSeconds."""

_URGENT_SECONDS = 180
_LOW, _HIGH = "preemption-low", "preemption-high"


@dataclass(frozen=True, slots=True)
class Queue:
    """Kueue gives the quota to a job of a higher priority, which trains to its end."""

    name: str = "kueue"
    what: str = "Kueue, for a more important job in the same ClusterQueue"
    grace: int = GRACE_SECONDS
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


WAYS = (Queue(),)


def _labels(drill: Drill, priority: str) -> dict[str, str]:
    return {
        "kueue.x-k8s.io/queue-name": drill.space.name,
        "kueue.x-k8s.io/priority-class": priority,
    }
