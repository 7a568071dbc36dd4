"""A training that diverges ends with 77, in every mode, and leaves finite checkpoints only."""

import json
import re

import numpy as np
import pytest
from harness import Computer, LoopbackCluster, Servers

DIVERGES = """
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made

def batch(number):
    return tf.fill([4, 2], tf.where(number < 200, 1.0, float("nan"))), tf.ones([4, 1])

def dataset(split, context):
    return tf.data.Dataset.range(3000).apply(testing.sleep(8000)).map(batch)
"""
"""Its data are broken after 200 batches, which take more than a second."""

TRACKED = (
    DIVERGES
    + """
class Tracked(tf.keras.Sequential):
    def __init__(self, layers):
        super().__init__(layers)
        self.total = tf.keras.metrics.Mean(name="total_loss")

    @property
    def metrics(self):
        return [self.total]

    def train_step(self, batch):
        features, labels = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(features, training=True) - labels) ** 2)
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        self.total.update_state(loss)
        return {"loss": self.total.result()}

def model():
    made = Tracked([tf.keras.layers.Dense(1)])
    made.compile("sgd")
    return made
"""
)
"""Its class says which metrics it has, and calls none of them loss."""


CHOSEN_RATE = """
import tensorflow as tf
from light_digits import dataset

def model(context):
    made = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(tf.keras.optimizers.SGD(float(context.options["rate"])), loss)
    return made
"""


RMSPROP = """
import tensorflow as tf
from tftrainer.examples import mnist

dataset = mnist.dataset

def model():
    made = mnist.model()
    made.compile("rmsprop", made.loss, ["accuracy"])
    return made
"""


def arguments(mode: str) -> list[str]:
    fast = ["--checkpoint-seconds=0.2", "--closure-seconds=0.1"]
    fast += ["--local-steps=10"] if mode == "local" else []
    return ["--task=diverges.py", *fast, *([] if mode == "alone" else [f"--mode={mode}"])]


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "synchronous", "local", "fit"])
def test_it_ends_with_77_and_the_last_finite_checkpoint(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "diverges.py").write_text(DIVERGES)
    env = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt")}
    if mode != "alone":
        env = servers.cluster.env("chief", **env)
    chief = here.start("chief", *arguments(mode), env=env)

    assert chief.ends(patience=60) == 77, chief.log
    said = re.match(
        r"training has diverged: (?:loss is nan|weight dense/\w+ is not finite) at step \d+\. "
        r"The last finite checkpoint, (\S+) \(step (\d+)\), is kept\.",
        chief.last_words,
    )
    assert said, chief.last_words
    assert said[1] == str(here.folder / "ckpt" / f"ckpt-{said[2]}")
    assert_all_finite(here, said[1])


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "synchronous", "local", "fit"])
def test_a_loss_that_is_no_metric_of_the_models_class_is_judged(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "diverges.py").write_text(TRACKED)
    env = {} if mode == "alone" else servers.cluster.env("chief")
    chief = here.start("chief", *arguments(mode), env=env)

    assert chief.ends(patience=60) == 77, chief.log
    assert "training has diverged: loss is nan at step" in chief.last_words


def test_all_members_end_at_the_same_step_and_name_the_same_checkpoint(here: Computer) -> None:
    (here.folder / "diverges.py").write_text(DIVERGES)
    cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    chief, worker = (
        here.start(role, *arguments("alone"), env=cluster.env(role, **shared))
        for role in ("chief", "worker")
    )

    assert (chief.ends(patience=90), worker.ends(patience=30)) == (77, 77), chief.log
    assert "is kept" in chief.last_words
    assert worker.last_words == chief.last_words


def test_local_steps_do_not_diverge_with_means_of_squares(here: Computer, servers: Servers) -> None:
    (here.folder / "digits.py").write_text(RMSPROP)
    chief = here.start(
        "chief",
        *("--task=digits.py", "--mode=local", "--epochs=20", "--seed=1"),
        env=servers.cluster.env("chief"),
    )

    assert chief.ends(patience=120) == 0, chief.log
    assert json.loads(chief.last_words)["metrics"]["accuracy"] > 0.95


def test_it_goes_on_if_asked_to_and_saves_nothing_broken(here: Computer) -> None:
    (here.folder / "diverges.py").write_text(DIVERGES.replace("range(3000)", "range(400)"))
    folder = f"--checkpoint-dir={here.folder / 'ckpt'}"
    chief = here.start("chief", *arguments("alone"), folder, "--on-nan=continue")

    assert chief.ends(patience=60) == 0, chief.log
    assert "loss is nan at step" in chief.log
    assert "is not finite at step" in chief.log
    newest = re.findall(r"saved checkpoint (\S+)", chief.log)[-1]
    assert_all_finite(here, newest)


@pytest.mark.parametrize("mode", ["alone", "asynchronous"])
def test_a_learning_rate_that_the_checkpoint_overrules_is_said(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "chosen.py").write_text(CHOSEN_RATE)
    env = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    if mode != "alone":
        env = servers.cluster.env("chief", **env)

    logs = []
    for rate in ("0.5", "0.5", "0.125"):
        task = ["--task=chosen.py", f"--option=rate={rate}", "--epochs=1", "--steps-per-epoch=5"]
        chief = here.start("chief", *task, env=env)
        assert chief.ends() == 0, chief.log
        logs.append(chief.log)

    said = "the learning rate is 0.5, as in the checkpoint, and not 0.125, as model() sets it"
    assert ["the learning rate is" in log for log in logs] == [False, False, True]
    assert said in logs[-1]


def assert_all_finite(here: Computer, newest: str) -> None:
    import tensorflow as tf  # noqa: PLC0415 -- not needed by who only starts processes

    state = tf.train.get_checkpoint_state(str(here.folder / "ckpt"))
    assert state.model_checkpoint_path == newest
    for path in state.all_model_checkpoint_paths:
        reader = tf.train.load_checkpoint(path)
        for name, kind in reader.get_variable_to_dtype_map().items():
            assert not kind.is_floating or np.isfinite(reader.get_tensor(name)).all(), name
