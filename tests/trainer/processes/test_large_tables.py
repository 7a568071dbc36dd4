"""Checkpoints that the ps write themselves, and those that the chief has to write for them."""

import json

import tensorflow as tf
from harness import DIGITS, Computer, LoopbackCluster, Process, Servers

from tools.ports import free_port

ROWS, WIDTH = 2_000_000, 16
TABLE_BYTES = ROWS * WIDTH * 4
STEPS = "model/optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"
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


def start_chief(
    here: Computer, cluster: LoopbackCluster, *arguments: str, folder: str, uid: str
) -> Process:
    addresses = {**cluster.addresses, "chief": [f"localhost:{free_port()}"]}
    env = LoopbackCluster(addresses).env(
        "chief", TFTRAINING_CHECKPOINT_DIR=folder, TFTRAINING_JOB_UID=uid
    )
    return here.start("chief", *arguments, env=env)


def peaks(chief: Process) -> dict[str, int]:
    """Bytes of memory of the chief, by when."""
    assert chief.ends() == 0, chief.log
    lines = [line.split() for line in chief.log.splitlines()]
    return {line[0]: int(line[1]) * 1024 for line in lines if line[0] in ("before", "begun", "end")}


def test_the_chief_never_holds_a_table_that_is_partitioned(
    here: Computer, two_ps: LoopbackCluster
) -> None:
    (here.folder / "table.py").write_text(TASK)
    task = ("--task=table.py", "--partition-bytes=1000", "--batch-size=16")
    folder = str(here.folder / "ckpt")
    first = start_chief(here, two_ps, *task, "--epochs=1", folder=folder, uid="uid-1")
    began = peaks(first)
    more = ("--epochs=2", f"--resume-from={folder}")
    second = start_chief(here, two_ps, *task, *more, folder=folder, uid="uid-2")
    resumed = peaks(second)

    assert json.loads(second.last_words)["resumedStep"] == 4
    for each in (began, resumed):
        # What every chief needs grows a little in each phase.
        assert each["before"] - each["begun"] < TABLE_BYTES / 4, (began, resumed)
        assert each["end"] - each["begun"] < TABLE_BYTES / 4, (began, resumed)


def test_the_chief_saves_and_restores_where_a_ps_does_not_see_the_files(
    here: Computer, servers: Servers
) -> None:
    """A path that leads every process to another place, as a volume does that one of them has."""
    unseen, seen = "/proc/self/cwd/ckpt", str(here.folder / "ckpt")
    short = (DIGITS, "--steps-per-epoch=10")
    resumes = (*short, "--epochs=2")
    runs = [
        ((*short, "--epochs=1"), unseen, f"ps-0 cannot write to {unseen} (NotFoundError"),
        ((*resumes, f"--resume-from={unseen}"), str(here.folder / "2"), "ps-0 cannot read"),
        ((*resumes, f"--resume-from={seen}"), str(here.folder / "3"), None),
    ]
    for number, (arguments, folder, line) in enumerate(runs):
        uid = f"uid-{number}"
        chief = start_chief(here, servers.cluster, *arguments, folder=folder, uid=uid)
        assert chief.ends() == 0, chief.log
        done = json.loads(chief.last_words)
        assert done["resumedStep"] == (10 if number else None)
        assert chief.log.count("the chief saves and restores") == (line is not None)
        assert line is None or line in chief.log
        # The optimizer's count of steps is on the ps.
        reader = tf.train.load_checkpoint(f"{folder.replace(unseen, seen)}/ckpt-{done['step']}")
        assert int(reader.get_tensor(STEPS)) == done["step"] == (20 if number else 10)
    assert not (servers.computer.folder / "ckpt").exists()
    assert not list(here.folder.glob("*/ckpt-*_temp"))
