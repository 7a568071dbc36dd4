"""The job that everyone runs first: chief, two workers, a ps and an evaluator."""

import json
import os
from pathlib import Path

import pytest
from harness import EXAMPLE, Computer, Servers


def train_and_evaluate(here: Computer, servers: Servers, **more: str) -> tuple[dict, dict]:
    """Run a chief and an evaluator to their ends; their last documents."""
    shared = {
        "TFTRAINING_JOB_UID": "uid-1",
        "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "checkpoints"),
        **more,
    }
    of_evaluator, of_chief = (servers.cluster.env(r, **shared) for r in ("evaluator", "chief"))
    # As a pod starts them.
    evaluator = here.start("evaluator", EXAMPLE, env=of_evaluator, fresh=True)
    chief = here.start("chief", EXAMPLE, "--epochs=3", env=of_chief, fresh=True)
    assert (chief.ends(), evaluator.ends()) == (0, 0), chief.log + evaluator.log
    return json.loads(chief.last_words), json.loads(evaluator.last_words)


def test_trains_evaluates_and_ends_by_itself(here: Computer, servers: Servers) -> None:
    done, evaluated = train_and_evaluate(here, servers)

    assert done["phase"] == "done"
    assert done["step"] == done["totalSteps"] > 0
    assert Path(done["lastCheckpoint"]["path"]).with_suffix(".index").exists()
    assert (evaluated["role"], evaluated["phase"]) == ("evaluator", "done")
    assert evaluated["step"] == done["step"]
    assert evaluated["metrics"]["accuracy"] >= 0.95
    assert evaluated["metrics"]["loss"] < 0.3


@pytest.mark.skipif("MNIST_DIR" not in os.environ, reason="MNIST_DIR names no folder of images")
def test_trains_on_real_images(here: Computer, servers: Servers) -> None:
    _, evaluated = train_and_evaluate(here, servers, MNIST_DIR=os.environ["MNIST_DIR"])

    assert evaluated["metrics"]["accuracy"] >= 0.95
