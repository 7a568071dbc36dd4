"""Two members that make every step together."""

import json
import signal

from harness import DIGITS, Computer, LoopbackCluster, Process


def start(here: Computer, *arguments: str) -> tuple[Process, Process]:
    cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    chief, worker = (
        here.start(role, DIGITS, "--batch-size=32", *arguments, env=cluster.env(role, **shared))
        for role in ("chief", "worker")
    )
    return chief, worker


def test_a_gang_stops_together_on_sigterm_and_resumes(here: Computer) -> None:
    chief, worker = start(here, "--epochs=1000")
    chief.step_beyond(20)
    # Either may be told to end; both have to save at the same step.
    worker.signal(signal.SIGTERM)
    assert (worker.ends(patience=30), chief.ends(patience=30)) == (143, 143)

    chief, worker = start(here, "--epochs=2")
    assert (chief.ends(), worker.ends()) == (0, 0)
    assert "resumed from checkpoint" in chief.log
    done = json.loads(chief.last_words)
    assert done["step"] == done["totalSteps"]
    assert done["metrics"]["accuracy"] >= 0.95


def test_a_lost_member_ends_the_other_with_69(here: Computer) -> None:
    chief, worker = start(here, "--epochs=1000")
    chief.step_beyond(20)
    worker.kill()

    assert chief.ends(patience=60) == 69
    assert "another member of the cluster was lost" in chief.last_words
