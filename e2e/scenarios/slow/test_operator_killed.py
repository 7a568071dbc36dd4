"""The operator is killed while jobs are created, restarted and completed; nobody notices."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from e2e import platform_faults
from e2e.jobs import claim, paced, tasks
from e2e.recording import recording
from e2e.scenarios.drill import Drill
from e2e.scenarios.space import Space
from tools.cluster import Cluster
from tools.waiting import meanwhile

_BETWEEN_KILLS = (1.0, 5.0, 7.0, 4.0, 6.0)
"""Seconds; a new process needs about three of them before it works."""


@contextmanager
def killed_again_and_again(cluster: Cluster) -> Iterator[list[float]]:
    """Kill the operator every few seconds during the block; the list has an entry for each kill."""
    kills = list[float]()

    def kill(end: threading.Event) -> None:
        for seconds in itertools.cycle(_BETWEEN_KILLS):
            if end.wait(seconds):
                return
            platform_faults.kill_operator(cluster)
            kills.append(seconds)

    with meanwhile(kill):
        yield kills


def test_jobs_end_as_they_would_have_undisturbed(space: Space, cluster: Cluster) -> None:
    jobs = ("calm", "restarted")
    with recording(cluster, space.name) as record:
        drills = {name: Drill(space, record, name) for name in jobs}
        with killed_again_and_again(cluster) as kills:
            space.apply(tasks(), *(claim(name) for name in jobs))
            one = {"replicas": 1}
            space.apply(*(paced(name, epochs=4, milliseconds=100, worker=one) for name in jobs))
            for drill in drills.values():
                drill.wait_for_steps(120)
        chief = drills["restarted"].pod("chief")
        with killed_again_and_again(cluster) as more:
            drills["restarted"].inject(chief, chief.kill)
            drills["calm"].expect_success(restarts=0)
            drills["restarted"].expect_success(restarts=1)
        assert len(kills) >= 2
        assert len(more) >= 2
