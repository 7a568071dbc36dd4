"""Checkpoints of a table that is larger than what the chief has memory for."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from harness import Computer, LoopbackCluster, Process, free_port

ROWS, WIDTH = 2_000_000, 16
TABLE_BYTES = ROWS * WIDTH * 4
TASK = f"""
import tensorflow as tf
from pathlib import Path

def model():
    made = tf.keras.Sequential([
        tf.keras.layers.Input([4], dtype=tf.int32),
        tf.keras.layers.Embedding({ROWS}, {WIDTH}, embeddings_initializer="zeros", name="table"),
        tf.keras.layers.GlobalAveragePooling1D(),
        tf.keras.layers.Dense(1),
    ])
    made.compile(tf.keras.optimizers.SGD(0.1), "mse")
    return made

def dataset(split, context):
    rows = tf.reshape(tf.cast(tf.linspace(0, {ROWS - 1}, 256), tf.int32), [64, 4])
    return tf.data.Dataset.from_tensor_slices((rows, tf.ones([64, 1]))).batch(16)

class Peak(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        print("before", kilobytes("VmHWM"), flush=True)
        Path("/proc/self/clear_refs").write_text("5")
        print("begun", kilobytes("VmRSS"), flush=True)

    def on_train_end(self, logs=None):
        print("end", kilobytes("VmHWM"), flush=True)

def kilobytes(name):
    return Path("/proc/self/status").read_text().partition(name + ":")[2].split()[0]

def callbacks():
    return [Peak()]
"""
TABLE = "model/layer_with_weights-0/embeddings/.ATTRIBUTES/VARIABLE_VALUE"


def start_chief(
    here: Computer, cluster: LoopbackCluster, *arguments: str, folder: str, uid: str = "uid-1"
) -> Process:
    (here.folder / "table.py").write_text(TASK)
    addresses = {**cluster.addresses, "chief": [f"localhost:{free_port()}"]}
    env = LoopbackCluster(addresses).env(
        "chief", TFTRAINING_CHECKPOINT_DIR=folder, TFTRAINING_JOB_UID=uid
    )
    parted = ("--task=table.py", "--partition-bytes=1000", "--batch-size=16")
    return here.start("chief", *parted, *arguments, env=env)


def peaks(chief: Process) -> dict[str, int]:
    """Bytes of memory of the chief, by when."""
    assert chief.ends() == 0, chief.log
    lines = [line.split() for line in chief.log.splitlines()]
    return {line[0]: int(line[1]) * 1024 for line in lines if line[0] in ("before", "begun", "end")}


def test_neither_saving_nor_restoring_a_table_brings_it_into_the_chief(
    here: Computer, two_ps: LoopbackCluster
) -> None:
    folder = here.folder / "ckpt"
    first = start_chief(here, two_ps, "--epochs=1", folder=str(folder))
    began = peaks(first)
    second = start_chief(
        here, two_ps, "--epochs=2", f"--resume-from={folder}", folder=str(folder), uid="uid-2"
    )
    resumed = peaks(second)

    assert json.loads(second.last_words)["resumedStep"] == 4
    print(began, resumed)
    assert began["end"] - began["begun"] < TABLE_BYTES / 4
    assert resumed["before"] - began["before"] < TABLE_BYTES / 4
    assert resumed["end"] - resumed["begun"] < TABLE_BYTES / 4
