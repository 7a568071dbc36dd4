"""MultiWorkerMirrored: the loss of one restarts them all, from their checkpoint."""

from e2e.jobs import paced
from e2e.scenarios.drill import Drill


def test_one_lost_worker_restarts_the_gang(drill: Drill) -> None:
    job = paced(strategy="MultiWorkerMirrored", worker={"replicas": 1})
    # Both write checkpoints here, each its own, and a step takes the pause of the slower one.
    del job["spec"]["ps"]
    drill.start(job)
    chief, worker = drill.pod("chief"), drill.pod("worker")
    before = drill.incarnation(chief)

    drill.inject(worker, worker.kill)
    drill.wait_until_back(chief, before)
    drill.wait_until_resumed(120, restarts=1)

    assert drill.record.resumes(drill.job)[0].start > 0
    drill.expect_success(restarts=1)
