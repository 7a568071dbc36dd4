"""A whole job on one core, where TensorFlow's servers deadlock with as few threads as it gives."""

import json
import os

import pytest
from harness import DIGITS, Computer, LoopbackCluster


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous"])
def test_four_workers_on_one_core_train_to_the_end(here: Computer, mode: str) -> None:
    cluster = LoopbackCluster.of(worker=4, ps=1)
    task = (DIGITS, "--epochs=6", "--seed=1", f"--mode={mode}")
    core = min(os.sched_getaffinity(0))
    # Children inherit it, and TensorFlow then sees one core.
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        for index in range(4):
            here.start(f"worker-{index}", *task, env=cluster.env("worker", index), serve=False)
        here.start("ps-0", *task, env=cluster.env("ps", 0), serve=False)
        chief = here.start("chief", *task, env=cluster.env("chief"), fresh=True)
    finally:
        os.sched_setaffinity(0, before)

    chief.progress_until(
        lambda d: sum(worker["examplesPerSecond"] > 0 for worker in d["workers"]) == 4,
        "all four at work",
    )
    assert chief.ends() == 0, chief.log
    done = json.loads(chief.last_words)
    assert done["step"] == done["totalSteps"]
