"""A task that counts in its weights how often each example was trained on.

As weights, the counts are in the checkpoints: they say what the weights have seen. Options:
`examples` (1000), `shuffle` (buffer; 0: none), `sleep` (microseconds a batch), `unknown` (a dataset
without a known length), `own_order` (its sharding is off).
"""

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing
from tftrainer import Context

_EXAMPLES = 1000


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


def model(context: Context) -> tf.keras.Model:
    """Make a model of one weight, and the counts."""
    ids = tf.keras.Input([], dtype=tf.int64)
    made = tf.keras.Model(ids, tf.keras.layers.Dense(1)(Seen(_examples(context))(ids)))
    made.compile(tf.keras.optimizers.SGD(0.01), "mse")
    return made


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make batches of (id, label), by default in their order."""
    del split
    ids = tf.data.Dataset.range(_examples(context)).map(lambda i: (i, tf.cast(i, tf.float32)))
    if buffer := int(context.options.get("shuffle", 0)):
        ids = ids.shuffle(buffer)
    if "unknown" in context.options:
        ids = ids.filter(lambda i, _: i >= 0)
    batches = ids.batch(context.batch_size)
    if sleep := int(context.options.get("sleep", 0)):
        batches = batches.apply(testing.sleep(sleep))
    if "own_order" in context.options:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        batches = batches.with_options(options)
    return batches


def _examples(context: Context) -> int:
    return int(context.options.get("examples", _EXAMPLES))
