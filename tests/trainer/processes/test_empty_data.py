"""Data without a batch: training fails with its name, and counts no step for what never came."""

import re
import signal
import textwrap
import time

import pytest
import tensorflow as tf
from harness import Computer, LoopbackCluster, Process, Servers, until

from tools.ports import free_port

NOTHING_PASSES = """
    from light_digits import dataset as digits, model

    def dataset(split, context):
        return NOTHING
"""
NOTHING = {
    "a filter drops all": "digits(split, context).unbatch().filter(lambda *_: False).batch(32)",
    "nothing to repeat": "digits(split, context).filter(lambda *_: False).repeat()",
    "a filter behind repeat": "digits(split, context).repeat().filter(lambda *_: False)",
}
SAID = {
    "a filter drops all": (64, "is empty: it has no examples, or a filter drops all of them"),
    "nothing to repeat": (64, "is empty: it has no examples, or a filter drops all of them"),
    "a filter behind repeat": (76, "gave no batch for 3 s: a filter behind repeat"),
}
"""The exit code, and what the message says behind the dataset's name."""

GOING_DRY = """
    import tensorflow as tf
    from light_digits import dataset as digits, model as of_digits

    class Count(tf.keras.layers.Layer):
        def build(self, _):
            self.batches = self.add_weight(
                name="batches", shape=[], dtype=tf.int64, initializer="zeros", trainable=False,
                aggregation=tf.VariableAggregation.SUM,
            )

        def call(self, images, training=False):
            if training:
                self.batches.assign_add(tf.sign(tf.shape(images, tf.int64)[0]))
            return images

    def model():
        made = of_digits()
        counted = tf.keras.Sequential([tf.keras.layers.Input((8, 8, 1)), Count(), *made.layers])
        counted.compile("sgd", made.loss)
        return counted

    def dataset(split, context):
        data = digits(split, context)
        return tf.data.TextLineDataset("FILE").flat_map(lambda _: data.take(4))
"""


def start(here: Computer, servers: Servers, source: str, *arguments: str, workers: int) -> Process:
    """Start a chief that has so many workers, or trains alone."""
    (here.folder / "mine.py").write_text(textwrap.dedent(source))
    told = {
        "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"),
        "TFTRAINING_JOB": "mine",
        "TFTRAINING_JOB_UID": "u",
    }
    if workers:
        addresses = {**servers.cluster.addresses, "chief": [f"localhost:{free_port()}"]}
        addresses["worker"] = addresses["worker"][:workers]
        told = LoopbackCluster(addresses).env("chief", **told)
    return here.start("chief", "--task=mine.py", *arguments, env=told)


@pytest.mark.parametrize("workers", [0, 1, 2], ids=["alone", "one worker", "two workers"])
@pytest.mark.parametrize("why", NOTHING)
def test_data_without_a_batch_fail_the_training_with_their_name(
    here: Computer, servers: Servers, why: str, workers: int
) -> None:
    limits = ("--stall-seconds=3", "--first-step-seconds=3") if SAID[why][0] == 76 else ()
    source = NOTHING_PASSES.replace("NOTHING", NOTHING[why])
    chief = start(here, servers, source, "--steps-per-epoch=20", *limits, workers=workers)

    code, said = SAID[why]
    assert chief.ends(patience=40) == code, chief.log
    assert re.search(rf'dataset\("train", context\) of .*mine.py {re.escape(said)}', chief.log)
    assert "step " not in chief.last_words


def settled(chief: Process) -> None:
    """Wait until no step was counted for two seconds."""
    step, since = -1, time.monotonic()

    def look() -> bool:
        nonlocal step, since
        if (now := chief.progress()["step"]) != step:
            step, since = now, time.monotonic()
        return time.monotonic() > since + 2

    until(look, "no step for two seconds", patience=20)


@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
def test_no_step_is_counted_for_a_batch_that_does_not_come(
    here: Computer, servers: Servers, workers: int
) -> None:
    file = here.folder / "lines"
    file.write_text("once\n")
    source = GOING_DRY.replace("FILE", str(file))
    arguments = ("--steps-per-epoch=1000000", "--closure-seconds=0.2")
    chief = start(here, servers, source, *arguments, workers=workers)
    chief.step_beyond(20)
    file.write_text("")
    settled(chief)
    chief.signal(signal.SIGTERM)

    assert chief.ends() == 143, chief.log
    saved = re.search(r"saved checkpoint (\S+/ckpt-(\d+))", chief.log)
    assert saved is not None, chief.log
    reader = tf.train.load_checkpoint(saved[1])
    (name,) = (n for n in reader.get_variable_to_shape_map() if "/batches/.ATTR" in n)
    assert int(saved[2]) == reader.get_tensor(name)
