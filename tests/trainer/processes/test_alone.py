"""Without a cluster: on a laptop, and mirrored on the devices of one computer."""

import json
import os
import signal
from pathlib import Path

import pytest
from harness import DIGITS, EXAMPLE, Computer


def newest_data(folder: Path) -> list[Path]:
    return sorted(folder.glob("ckpt-*.data-*"), key=lambda path: path.stat().st_mtime_ns)


def test_a_laptop_trains_without_any_variable(here: Computer) -> None:
    laptop = here.start("laptop", EXAMPLE, "--epochs=3", "--seed=1", serve=False)

    assert laptop.ends() == 0
    done = json.loads(laptop.last_words)
    assert done["step"] == done["totalSteps"]
    assert done["metrics"]["accuracy"] >= 0.95
    assert done["lastCheckpoint"] is None
    assert "no checkpoint directory" in laptop.log


def test_mirrored_trains_on_two_devices(here: Computer) -> None:
    mirrored = here.start(
        "mirrored",
        DIGITS,
        "--epochs=3",
        "--batch-size=32",
        "--logical-cpus=2",
        env={
            "TFTRAINING_STRATEGY": "Mirrored",
            "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"),
            "TF_CONFIG": json.dumps(
                {"cluster": {"chief": ["localhost:1"]}, "task": {"type": "chief", "index": 0}}
            ),
        },
    )

    assert mirrored.ends() == 0
    done = json.loads(mirrored.last_words)
    # A device does not divide its operations among the cores of the other one.
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert f"training on 2 replicas, {threads} threads for an operation of each" in mirrored.log
    assert done["metrics"]["accuracy"] >= 0.95
    assert done["lastCheckpoint"]["step"] == done["totalSteps"]


TEXTS = """
import tensorflow as tf

def model():
    layers = tf.keras.layers
    made = tf.keras.Sequential([
        layers.Embedding(10, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)
    ])
    made.compile("adam", "mse")
    return made

def text(number):
    return tf.range(1 + number % 7) % 10, tf.reshape(tf.cast(number % 2, tf.float32), [1])

def dataset(split, context):
    return tf.data.Dataset.range(100).map(text).padded_batch(context.batch_size, ([None], [1]))
"""
"""A task whose gradients have as many rows as a batch has words, which is not always as many."""


def test_mirrored_trains_embeddings_with_batches_of_any_size(here: Computer) -> None:
    (here.folder / "task.py").write_text(TEXTS)
    options = ("--task=task.py", "--batch-size=4", "--epochs=2", "--logical-cpus=2")
    several = "--steps-per-closure=5"

    mirrored = here.start("mirrored", *options, several, env={"TFTRAINING_STRATEGY": "Mirrored"})

    assert mirrored.ends() == 0, mirrored.log
    assert json.loads(mirrored.last_words)["step"] == 2 * 13
    assert "steps are made one at a time" in mirrored.log


DESTROYED_NEVER = """
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made

def example(number):
    return tf.zeros([1]), tf.zeros([1])

def dataset(split, context):
    examples = tf.data.Dataset.range(1000).map(example).shuffle(100)
    return examples.batch(context.batch_size).apply(testing.sleep(1000))
"""
"""A task whose iterator mostly waits for ever when it is destroyed in the middle of a batch.

What sleeps holds a lock while its input is computed, and who cancels that waits for the lock.
"""


def test_mirrored_ends_while_the_next_batches_are_made(here: Computer) -> None:
    (here.folder / "task.py").write_text(DESTROYED_NEVER)
    options = ("--task=task.py", "--batch-size=20", "--epochs=1")
    env = {"TFTRAINING_STRATEGY": "Mirrored"}

    assert here.start("mirrored", *options, env=env).ends(patience=30) == 0


def test_a_corrupt_newest_checkpoint_is_skipped_and_said(here: Computer) -> None:
    folder = here.folder / "ckpt"
    arguments = (DIGITS, "--epochs=1000", f"--checkpoint-dir={folder}", "--checkpoint-seconds=0.2")
    first = here.start("first", *arguments, "--closure-seconds=0.1")
    first.progress_until(lambda _: len(newest_data(folder)) > 1, "two checkpoints")
    first.signal(signal.SIGTERM)
    assert first.ends(patience=20) == 143
    older, newest = newest_data(folder)[-2:]
    newest.write_bytes(newest.read_bytes()[:-1000])

    second = here.start("second", *arguments)
    second.says("resumed from checkpoint")
    assert f"{newest.stem} cannot be read, trying an older one" in second.log
    assert f"resumed from checkpoint {folder / older.stem}\n" in second.log
    second.kill()

    for path in newest_data(folder):
        path.write_bytes(b"")
    third = here.start("third", *arguments)
    assert third.ends() == 74
    assert "no checkpoint in" in third.last_words


KERAS_3 = """
import keras
import tensorflow as tf

def model():
    return keras.Sequential([keras.layers.Dense(1)])

def dataset(split, context):
    return tf.data.Dataset.from_tensors((tf.zeros([4, 2]), tf.zeros([4])))
"""

ONLY_IN_TRAINING = """
import tensorflow as tf
from light_digits import dataset

class Noise(tf.keras.layers.Layer):
    def call(self, features, training=None):
        return features + self.noise if training else features

def model():
    made = tf.keras.Sequential([Noise(), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    made.compile("sgd", "sparse_categorical_crossentropy")
    return made
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(
            ONLY_IN_TRAINING,
            "a step of the model of mine.py fails: AttributeError: 'Noise' object has no attribute",
            id="a layer that fails in training only",
        ),
        pytest.param(KERAS_3, "returned a Keras 3 model", id="a Keras 3 model"),
        pytest.param("def dataset(split, context): ...", "has no model()", id="no model"),
    ],
)
def test_a_bad_task_ends_with_64_and_says_why(here: Computer, source: str, said: str) -> None:
    (here.folder / "mine.py").write_text(source)
    laptop = here.start("laptop", "--task=mine.py")

    assert laptop.ends() == 64
    assert said in laptop.last_words
    assert said in laptop.log


def test_bad_arguments_end_with_64_before_tensorflow(here: Computer) -> None:
    laptop = here.start("laptop", "--task=tftrainer.examples.mnist", "--epochs=0")

    assert laptop.ends(patience=5) == 64
    assert "--epochs" in laptop.last_words


RAISES = """
import tensorflow as tf
from light_digits import dataset, model

class Mine(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise {error}

def callbacks(context):
    return [Mine()]
"""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param('ValueError("no such metric")', 1, id="a mistake"),
        pytest.param('ConnectionRefusedError("no tracking server")', 69, id="an outage"),
    ],
)
def test_what_a_callback_raises_is_said_first_with_its_line(
    here: Computer, error: str, code: int
) -> None:
    (here.folder / "mine.py").write_text(RAISES.replace("{error}", error))
    laptop = here.start("laptop", "--task=mine.py", "--steps-per-epoch=2")

    assert laptop.ends() == code, laptop.log
    said = error.replace("(", ": ").replace('"', "").replace(")", "")
    assert laptop.last_words == f"{said} ({here.folder / 'mine.py'}, line 7)"
