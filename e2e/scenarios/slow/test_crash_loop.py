"""A worker that crashes again and again is said to, and left out where fewer suffice."""

import threading
from contextlib import AbstractContextManager, suppress

from e2e.faults import Pod
from e2e.jobs import paced
from e2e.scenarios.drill import Drill, now
from tools.cluster import ClusterError
from tools.waiting import eventually, meanwhile

_LEFT_OUT_SECONDS = 120
_BACK_SECONDS = 180


def crashing(pod: Pod) -> AbstractContextManager[None]:
    """Kill the pod's process as soon as there is one, for the time of the block."""

    def kill(end: threading.Event) -> None:
        while not end.wait(0.5):
            # Most of the time there is none to kill.
            with suppress(ClusterError):
                pod.kill()

    return meanwhile(kill)


def test_a_worker_that_crashes_is_left_out_until_it_is_back(drill: Drill) -> None:
    drill.start(paced(worker={"replicas": 2, "minReplicas": 1}))
    began = now()

    with crashing(drill.pod("worker", 1)):
        not_ready = drill.space.wait_for("PodsReady", "False", seconds=60)
        assert "mnist-worker-1" in not_ready["message"]
        eventually(
            lambda: drill.space.status().get("excludedWorkers") == [1],
            "worker-1 is left out",
            _LEFT_OUT_SECONDS,
        )
        drill.wait_for_steps(60)
    eventually(
        lambda: not drill.space.status().get("excludedWorkers"), "it is taken back", _BACK_SECONDS
    )
    drill.wait_for_steps(60)
    drill.space.wait_for("PodsReady", seconds=60)
    assert drill.record.resumes(drill.job)[0].at > began
    drill.expect_success(restarts=0)
