"""The modes of the ParameterServer strategy: what each learns, counts and saves."""

import csv
import json
import re
import signal
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tensorflow as tf
from harness import DIGITS, Computer, LoopbackCluster, Process, Servers, until
from tftrainer.user.task import load

from tools.ports import free_port

OWN_STEP = """
import tensorflow as tf
from light_digits import dataset, model

def train_step(model, batch):
    images, labels = batch
    with tf.GradientTape() as tape:
        outputs = model(images, training=True)
        loss = model.compiled_loss(labels, outputs)
    variables = model.trainable_variables
    model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    model.compiled_metrics.update_state(labels, outputs)
    return {metric.name: metric.result() for metric in model.metrics}
"""

CURVE = """
import tensorflow as tf

def model():
    layer = tf.keras.layers.Dense
    made = tf.keras.Sequential([
        tf.keras.layers.Input([1]),
        layer(32, "tanh", kernel_initializer=tf.keras.initializers.GlorotUniform(seed=1)),
        layer(1, kernel_initializer=tf.keras.initializers.GlorotUniform(seed=2)),
    ])
    made.compile(tf.keras.optimizers.Adam(0.01), "mse")
    return made

def points():
    x = tf.reshape(tf.linspace(-1.0, 1.0, 64), [64, 1])
    # Each half spans the whole range.
    x = tf.concat([x[0::2], x[1::2]], axis=0)
    return x, tf.exp(x)

def dataset(split, context):
    return tf.data.Dataset.from_tensor_slices(points()).batch(context.batch_size)
"""
"""e^x on 64 points, of which two batches of 32 are the halves."""

WEIGHTED_WORDS = """
import tensorflow as tf

TEXTS = tf.constant([["a b"], ["c d"], ["a c"], ["d b"]] * 16)

def model():
    weights = tf.keras.layers.TextVectorization(output_mode="tf_idf")
    weights.adapt(TEXTS)
    made = tf.keras.Sequential(
        [tf.keras.Input([1], dtype=tf.string), weights, tf.keras.layers.Dense(1)]
    )
    made.compile("adam", "mse")
    return made

def dataset(split, context):
    labels = tf.ones([len(TEXTS), 1])
    return tf.data.Dataset.from_tensor_slices((TEXTS, labels)).batch(context.batch_size)
"""
"""The layer has a variable of a shape that is not known, which TensorFlow brings to no worker."""

WORDS = """
import tensorflow as tf

def model():
    made = tf.keras.Sequential([
        tf.keras.layers.Input([4], dtype=tf.int32),
        tf.keras.layers.Embedding(1000, 8),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(1),
    ])
    made.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return made

def dataset(split, context):
    words = tf.random.stateless_uniform([1024, 4], [1, 2], maxval=1000, dtype=tf.int32)
    sums = tf.reduce_sum(tf.cast(words, tf.float32), axis=1, keepdims=True) / 2000.0
    return tf.data.Dataset.from_tensor_slices((words, sums)).batch(context.batch_size)
"""
"""A table of 32 kB whose gradients are sparse."""


COUNTING = """
import tensorflow as tf
from tftrainer.examples import mnist
from tftrainer.examples.mnist import dataset

class Seen(tf.keras.metrics.Sum):
    def update_state(self, labels, outputs, sample_weight=None):
        return super().update_state(tf.ones_like(labels))

def model():
    made = mnist.model()
    made.compile("sgd", made.loss, metrics=[Seen(name="seen")])
    return made
"""
"""Its metric is the number of examples that its values are of."""


def start_chief(
    here: Computer, cluster: LoopbackCluster, *arguments: str, uid: str = "uid-1", **variables: str
) -> Process:
    addresses = {**cluster.addresses, "chief": [f"localhost:{free_port()}"]}
    env = LoopbackCluster(addresses).env(
        "chief",
        TFTRAINING_CHECKPOINT_DIR=str(here.folder / "ckpt"),
        TFTRAINING_JOB_UID=uid,
        **variables,
    )
    return here.start("chief", "--log-seconds=1", *arguments, env=env)


def completed(chief: Process) -> dict:
    assert chief.ends() == 0, chief.log
    done: dict = json.loads(chief.last_words)
    assert done["phase"] == "done"
    assert done["step"] == done["totalSteps"]
    return done


def every_worker_works(document: dict) -> bool:
    speeds = [worker["examplesPerSecond"] for worker in document["workers"]]
    return bool(speeds) and min(speeds) > 0


def input_waits(chief: Process) -> list[float | None]:
    """Of both workers, once both have a speed."""
    document = chief.progress_until(every_worker_works, "both workers work")
    assert [worker["task"] for worker in document["workers"]] == ["worker-0", "worker-1"]
    speeds = sum(worker["examplesPerSecond"] for worker in document["workers"])
    # Of other moments: where processors are busy they differ by more than half.
    assert 1 / 4 < document["examplesPerSecond"] / speeds < 4
    return [worker["inputWait"] for worker in document["workers"]]


def counted_by_keras(done: dict) -> int:
    """How many times the optimizer was applied, by the newest checkpoint."""
    reader = tf.train.load_checkpoint(done["lastCheckpoint"]["path"])
    name = "model/optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"
    return int(reader.get_tensor(name))


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        pytest.param(["--mode=asynchronous"], 2 * 270, id="asynchronous"),
        pytest.param(["--mode=synchronous"], 2 * 135, id="synchronous"),
        pytest.param(["--mode=local", "--local-steps=7"], 2 * 270, id="local"),
        pytest.param(["--mode=fit"], 2 * 270, id="fit, by a DatasetCreator"),
        pytest.param(["--mode=fit", "--fit-input=dataset"], 2 * 270, id="fit, by a Dataset"),
    ],
)
def test_every_mode_learns_with_a_step_of_the_users_own_and_counts_exactly(
    here: Computer, servers: Servers, arguments: list[str], steps: int
) -> None:
    (here.folder / "own.py").write_text(OWN_STEP)
    chief = start_chief(here, servers.cluster, "--task=own.py", "--epochs=2", *arguments)
    done = completed(chief)

    assert done["step"] == counted_by_keras(done) == steps
    assert set(re.findall(r" step \d+/(\d+) ", chief.log)) == {str(steps)}
    assert done["metrics"]["accuracy"] >= 0.9
    assert done["examplesPerSecond"] > 0
    advice = "it needs 2 times the learning rate"
    assert (advice in chief.log) is ("--mode=local" in arguments)


def test_synchronous_metrics_are_of_the_last_epoch_alone(here: Computer, servers: Servers) -> None:
    (here.folder / "counting.py").write_text(COUNTING)
    arguments = ("--task=counting.py", "--epochs=20", "--batch-size=960")
    done = completed(start_chief(here, servers.cluster, "--mode=synchronous", *arguments))

    assert done["metrics"]["seen"] == 1437 * 12


def losses(file: Path) -> list[float]:
    with file.open() as rows:
        return [float(row["loss"]) for row in csv.DictReader(rows)]


def test_synchronous_is_one_process_that_averages_the_same_halves(
    here: Computer, servers: Servers
) -> None:
    (here.folder / "curve.py").write_text(CURVE)
    steps = 200
    arguments = ("--task=curve.py", "--batch-size=32", f"--epochs={steps}", "--history")
    chief = start_chief(here, servers.cluster, "--mode=synchronous", *arguments)
    completed(chief)
    distributed = losses(here.folder / "ckpt" / "history.csv")
    task = load(str(here.folder / "curve.py")).module
    halves, whole = curve(task, steps, parts=2), curve(task, steps, parts=1)

    assert len(distributed) == steps
    assert distributed == halves
    assert np.max(np.abs(np.array(distributed) - whole) / whole) <= 1e-5
    assert distributed[-1] < 0.05 < distributed[0]


def curve(task: ModuleType, steps: int, *, parts: int) -> list[float]:
    """The losses of a plain loop that averages so many equal parts of the points."""
    model = task.model()
    variables = model.trainable_variables
    batches = list(zip(*(tf.split(values, parts) for values in task.points()), strict=True))

    @tf.function
    def gradients(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = model.compiled_loss(y, model(x, training=True))
        return loss, tape.gradient(loss, variables)

    losses = []
    for _ in range(steps):
        made = [gradients(x, y) for x, y in batches]
        by_variable = zip(*(of_part for _, of_part in made), strict=True)
        means = [sum(gradient * (1 / parts) for gradient in each) for each in by_variable]
        model.optimizer.apply_gradients(zip(means, variables, strict=True))
        losses.append(float(sum(loss * (1 / parts) for loss, _ in made)))
    return losses


def test_a_killed_worker_is_left_out_of_synchronous_steps_until_it_is_back(
    here: Computer, servers: Servers
) -> None:
    chief = start_chief(here, servers.cluster, DIGITS, "--epochs=1000", "--mode=synchronous")
    assert all(0 <= wait <= 1 for wait in input_waits(chief))
    assert chief.progress()["queueDepth"] is None
    servers.running["worker-1"].kill()
    chief.says("worker-1 unavailable; continuing without it")
    chief.step_beyond(chief.progress()["step"] + 20)

    servers.start("worker", 1).says("worker-1 serves")
    chief.says("worker-1 rejoined", patience=20)
    chief.step_beyond(chief.progress()["step"] + 20)

    chief.signal(signal.SIGTERM)
    assert chief.ends(patience=20) == 143


def test_synchronous_steps_wait_for_a_hung_worker_only_until_it_is_missed(
    here: Computer, servers: Servers
) -> None:
    # gRPC would give it up after 20 to 30 s; here the chief has to do without that.
    patient = {"TF_GRPC_DEFAULT_OPTIONS": "grpc.keepalive_time_ms=600000"}
    arguments = (DIGITS, "--epochs=1000", "--mode=synchronous")
    chief = start_chief(here, servers.cluster, *arguments, **patient)
    chief.step_beyond(10)
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    try:
        chief.says("worker-1 unavailable; continuing without it", patience=40)
        chief.step_beyond(chief.progress()["step"] + 20)
    finally:
        worker.signal(signal.SIGCONT)
    chief.says("worker-1 rejoined", patience=20)
    chief.step_beyond(chief.progress()["step"] + 20)


def test_fit_begins_its_next_epochs_though_a_worker_hangs(here: Computer, servers: Servers) -> None:
    """Keras itself waits for all that is scheduled at the end of each epoch."""
    # gRPC would give it up after 20 to 30 s; here the chief has to do without that.
    patient = {"TF_GRPC_DEFAULT_OPTIONS": "grpc.keepalive_time_ms=600000"}
    chief = start_chief(here, servers.cluster, DIGITS, "--epochs=1000", "--mode=fit", **patient)
    # While a worker runs its first function, TensorFlow itself may wait for the others.
    chief.step_beyond(300)
    assert all(0 <= wait <= 1 for wait in input_waits(chief))
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    try:
        chief.says("continuing without it", patience=40)
        chief.step_beyond(chief.progress()["step"] + 400)
    finally:
        worker.signal(signal.SIGCONT)


SYNCHRONIZED = """
import tensorflow as tf
from light_digits import dataset

def model():
    layers = tf.keras.layers
    made = tf.keras.Sequential([
        layers.Flatten(), layers.BatchNormalization(synchronized=True), layers.Dense(10)
    ])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile("adam", loss)
    return made
"""


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous"])
def test_batch_normalization_may_be_synchronized(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(SYNCHRONIZED)

    completed(start_chief(here, servers.cluster, "--task=mine.py", f"--mode={mode}"))


IN_A_BRANCH = OWN_STEP.replace(
    "    model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))",
    "    gradients = tape.gradient(loss, variables)\n"
    "    tf.cond(loss > 0, lambda: model.optimizer.apply_gradients(zip(gradients, variables)),\n"
    "            lambda: model.optimizer.iterations)",
)


def test_synchronous_refuses_what_it_cannot_average(here: Computer, servers: Servers) -> None:
    (here.folder / "mine.py").write_text(IN_A_BRANCH)

    chief = start_chief(here, servers.cluster, "--task=mine.py", "--mode=synchronous")

    assert chief.ends() == 64, chief.log
    assert chief.last_words.startswith("train_step calls model.optimizer.apply_gradients (or ")


def test_local_steps_train_a_model_with_weights_of_words(here: Computer, servers: Servers) -> None:
    (here.folder / "weighted.py").write_text(WEIGHTED_WORDS)
    arguments = ("--task=weighted.py", "--batch-size=8", "--epochs=2", "--mode=local")
    done = completed(start_chief(here, servers.cluster, *arguments))
    assert done["step"] == 2 * 8


def test_a_killed_worker_is_tolerated_with_local_steps(here: Computer, servers: Servers) -> None:
    arguments = (DIGITS, "--epochs=1000", "--mode=local")
    chief = start_chief(here, servers.cluster, *arguments)
    assert all(0 <= wait <= 1 for wait in input_waits(chief))
    assert chief.progress()["queueDepth"] >= 0
    servers.running["worker-1"].kill()
    chief.step_beyond(chief.progress()["step"] + 200)

    again = servers.start("worker", 1)
    again.says("worker-1 serves")
    before = again.cpu_seconds()
    until(lambda: again.cpu_seconds() > before + 0.5, "it takes part again", patience=30)
    assert chief.popen.poll() is None


@pytest.mark.parametrize("mode", ["synchronous", "fit"])
def test_a_lost_ps_ends_the_chief_with_75(here: Computer, servers: Servers, mode: str) -> None:
    chief = start_chief(here, servers.cluster, DIGITS, "--epochs=1000", f"--mode={mode}")
    chief.step_beyond(10)
    servers.running["ps-0"].kill()
    try:
        assert chief.ends(patience=30) == 75
        assert "a parameter server was lost" in chief.last_words
    finally:
        servers.start("ps", 0).says("ps-0 serves")


def test_fit_saves_on_sigterm_and_goes_on_in_the_middle_of_an_epoch(
    here: Computer, servers: Servers
) -> None:
    arguments = (DIGITS, "--mode=fit", "--closure-seconds=0.2")
    first = start_chief(here, servers.cluster, *arguments, "--epochs=1000")
    first.step_beyond(300)
    assert first.progress()["queueDepth"] >= 0
    first.signal(signal.SIGTERM)
    assert first.ends(patience=30) == 143
    saved = int((here.folder / "ckpt" / "checkpoint").read_text().split('"')[1].split("-")[1])
    epochs = saved // 270 + 2
    done = completed(start_chief(here, servers.cluster, *arguments, f"--epochs={epochs}"))

    assert done["resumedStep"] == saved
    assert done["step"] == epochs * 270
    # A worker that pauses, on a machine that is busy, may have its batch repeated.
    assert 0 <= counted_by_keras(done) - done["step"] <= 2


def test_a_partitioned_variable_is_saved_whole_and_read_with_any_number_of_ps(
    here: Computer, servers: Servers, two_ps: LoopbackCluster
) -> None:
    (here.folder / "words.py").write_text(WORDS)
    task = ("--task=words.py", "--batch-size=32")
    parted = (*task, "--partition-bytes=1000")
    # Three jobs with one directory; each continues from what the one before has completed.
    further = (*task, f"--resume-from={here.folder / 'ckpt'}")
    first = completed(start_chief(here, two_ps, *parted, "--mode=synchronous", "--epochs=20"))
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "uid-1"}
    evaluator = here.start("evaluator", *task, env=two_ps.env("evaluator", **shared))
    assert evaluator.ends() == 0
    second = completed(start_chief(here, servers.cluster, *further, "--epochs=25", uid="uid-2"))
    parted = (*further, "--partition-bytes=1000")
    third = completed(
        start_chief(here, two_ps, *parted, "--mode=local", "--epochs=30", uid="uid-3")
    )

    # An epoch is 32 batches, of which a synchronous step takes two.
    steps = [20 * 16, 20 * 16 + 5 * 32, 20 * 16 + 10 * 32]
    assert [done["step"] for done in (first, second, third)] == steps
    assert [done["resumedStep"] for done in (first, second, third)] == [None, *steps[:2]]
    # Of a table that was not read it would be about 1.
    assert json.loads(evaluator.last_words)["metrics"]["mae"] < 0.01
    assert max(done["metrics"]["mae"] for done in (first, second, third)) < 0.2
