"""Mixed precision: each strategy trains by what tf_keras offers there, and says what it offers."""

import json

import pytest
from harness import Computer, LoopbackCluster, Process, Servers

from tools.ports import free_port

TASK = """
import light_digits
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("{policy}")
dataset = light_digits.dataset

def model():
    made = light_digits.model()
    assert made.layers[-1].compute_dtype == "{policy}".removeprefix("mixed_")
    assert made.layers[-1].kernel.dtype == tf.float32
    return made
"""


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous", "local", "fit"])
def test_workers_and_ps_train_in_bfloat16(here: Computer, servers: Servers, mode: str) -> None:
    chief = start_chief(here, servers, "mixed_bfloat16", f"--mode={mode}")

    assert learned(chief)["step"] > 0


def test_float16_is_refused_there_with_what_to_use(here: Computer, servers: Servers) -> None:
    chief = start_chief(here, servers, "mixed_float16")

    assert chief.ends() == 64
    assert "mixed_bfloat16" in chief.last_words


def test_replicas_train_in_float16_and_resume(here: Computer) -> None:
    def start(epochs: int) -> Process:
        env = {"TFTRAINING_STRATEGY": "Mirrored", "TFTRAINING_CHECKPOINT_DIR": checkpoints(here)}
        return here.start(
            "chief", task(here, "mixed_float16"), f"--epochs={epochs}", "--logical-cpus=2", env=env
        )

    first = learned(start(1))
    chief = start(2)
    assert learned(chief)["step"] == 2 * first["step"]
    assert f"resumed from checkpoint {first['lastCheckpoint']['path']}" in chief.log


def test_a_gang_trains_in_float16(here: Computer) -> None:
    cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
    chief, worker = (
        here.start(role, task(here, "mixed_float16"), "--epochs=1", env=cluster.env(role))
        for role in ("chief", "worker")
    )
    assert worker.ends() == 0
    assert learned(chief)["step"] > 0


def start_chief(here: Computer, servers: Servers, policy: str, *arguments: str) -> Process:
    addresses = {**servers.cluster.addresses, "chief": [f"localhost:{free_port()}"]}
    env = LoopbackCluster(addresses).env("chief", TFTRAINING_CHECKPOINT_DIR=checkpoints(here))
    return here.start("chief", task(here, policy), "--epochs=1", *arguments, env=env)


def task(here: Computer, policy: str) -> str:
    (here.folder / "mixed.py").write_text(TASK.format(policy=policy))
    return "--task=mixed.py"


def checkpoints(here: Computer) -> str:
    return str(here.folder / "ckpt")


def learned(chief: Process) -> dict:
    assert chief.ends() == 0, chief.log
    done: dict = json.loads(chief.last_words)
    assert done["step"] == done["totalSteps"]
    assert done["metrics"]["accuracy"] > 0.8
    return done
