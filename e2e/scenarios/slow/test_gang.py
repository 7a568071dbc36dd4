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

    drill.hit(worker, worker.kill)
    drill.is_back(chief, before)
    drill.resumed(120, restarts=1)

    assert drill.record.resumes(drill.job)[0].start > 0
    drill.ends_well(restarts=1)
