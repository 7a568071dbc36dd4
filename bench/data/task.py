"""A task that counts in its weights how often each example was trained on.

As weights, the counts are in the checkpoints: they say what the weights have seen. Options:
`examples` (1000), `shuffle` (buffer; 0: none), `sleep` (microseconds a batch), `unknown` (a dataset
without a known length), `own_order` (its sharding is off), `decode` (an image for each example),
`prints` (a line of this text in the log of who makes an example), `epochs` (a folder for the counts
at the end of each epoch), `files` (a folder of TFRecord files with the numbers of the examples).
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing
from tftrainer import Context

_EXAMPLES = 1000
_SIDE = 256


class Seen(tf.keras.layers.Layer):  # type: ignore[misc]
    """Counts the examples that pass through it in training."""

    def __init__(self, examples: int) -> None:
        super().__init__(name="counts")
        self._examples = examples

    def build(self, _: Sequence[int]) -> None:
        """Make the counts: int64, [examples]."""
        self.seen = self.add_weight(
            name="seen",
            shape=[self._examples],
            dtype=tf.int64,
            initializer="zeros",
            trainable=False,
            aggregation=tf.VariableAggregation.SUM,
        )

    def call(self, ids: tf.Tensor, training: bool = False) -> tf.Tensor:  # noqa: FBT001, FBT002 -- Keras's
        """Return the ids as numbers from 0 to 1."""
        if training:
            counts = tf.math.unsorted_segment_sum(tf.ones_like(ids), ids, self._examples)
            self.seen.assign_add(counts)
        return tf.cast(ids, tf.float32)[:, tf.newaxis] / self._examples


class Epochs(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Writes what has been counted by the end of each epoch, to epoch-1.json and so on."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Write the counts of all examples; all members of a gang write the same."""
        del logs
        counts = self.model.get_layer("counts").seen.numpy().tolist()
        unfinished = self._folder / f"{os.getpid()}.tmp"
        unfinished.write_text(json.dumps(counts))
        unfinished.replace(self._folder / f"epoch-{epoch + 1}.json")


def callbacks(context: Context) -> list[tf.keras.callbacks.Callback]:
    """Make what writes the counts, if it is asked for."""
    return [Epochs(context.options["epochs"])] if "epochs" in context.options else []


def model(context: Context) -> tf.keras.Model:
    """Make a model of one weight, and the counts."""
    ids = tf.keras.Input([], dtype=tf.int64)
    made = tf.keras.Model(ids, tf.keras.layers.Dense(1)(Seen(_examples(context))(ids)))
    made.compile(tf.keras.optimizers.SGD(0.01), "mse")
    return made


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make batches of (id, label), by default in their order."""
    del split
    ids = _numbers(context).map(_maker(context))
    if buffer := int(context.options.get("shuffle", 0)):
        ids = ids.shuffle(buffer)
    if "unknown" in context.options:
        ids = ids.filter(lambda i, _: i >= 0)
    batches = ids.batch(context.batch_size)
    if sleep := int(context.options.get("sleep", 0)):
        batches = _paced(batches, sleep)
    if "own_order" in context.options:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        batches = batches.with_options(options)
    return batches


def _paced(batches: tf.data.Dataset, microseconds: int) -> tf.data.Dataset:
    """Take so long for each batch.

    TensorFlow's sleeping dataset, made for its own tests, holds a lock while its input is computed,
    and whoever cancels that waits for the lock: for ever, if the input is a function.
    """
    turns = tf.data.Dataset.range(tf.int64.max).apply(testing.sleep(microseconds))
    return tf.data.Dataset.zip((batches, turns)).map(lambda batch, _: batch)


def _numbers(context: Context) -> tf.data.Dataset:
    if "files" not in context.options:
        return tf.data.Dataset.range(_examples(context))
    records = context.files(f"{context.options['files']}/*.tfrecord").interleave(
        tf.data.TFRecordDataset, cycle_length=3, num_parallel_calls=tf.data.AUTOTUNE
    )
    numbers = records.map(lambda record: tf.strings.to_number(record, tf.int64))
    return numbers.apply(tf.data.experimental.assert_cardinality(_examples(context)))


def _maker(context: Context) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    image = None
    if "decode" in context.options:
        noise = tf.random.stateless_uniform([_SIDE, _SIDE, 3], (1, 2), 0, 256, tf.int32)
        image = tf.io.encode_jpeg(tf.cast(noise, tf.uint8))

    def make(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        label = tf.cast(i, tf.float32)
        if "prints" in context.options:
            tf.print(context.options["prints"], i)
        if image is not None:
            label += 1e-9 * tf.reduce_mean(tf.cast(tf.io.decode_jpeg(image), tf.float32))
        return i, label

    return make


def _examples(context: Context) -> int:
    return int(context.options.get("examples", _EXAMPLES))
