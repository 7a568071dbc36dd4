"""Counts what each worker has done, in a variable on a ps that the workers update; used by chief.

So nothing is missed between two reads of the chief, and a repeated function counts twice, as it was
computed twice.
"""

from collections.abc import Sequence

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.runtime.throughput import Work


class WorkTable:
    """One row per worker: examples, seconds of waiting for input, seconds in all (float64)."""

    def __init__(self, workers: int) -> None:
        """Make the variable; call it in the strategy's scope."""
        self._table = tf.Variable(tf.zeros([workers, 3], tf.float64), trainable=False, name="work")

    def add(
        self, *, examples: tf_types.Tensor, waiting: tf_types.Tensor, busy: tf_types.Tensor
    ) -> None:
        """Count for the worker that this runs on; in a tf.function that is scheduled."""
        number = tf.distribute.coordinator.experimental_get_current_worker_index()
        row = tf.stack([tf.cast(examples, tf.float64), waiting, busy])
        self._table.scatter_add(tf.IndexedSlices(row[tf.newaxis], number[tf.newaxis]))

    def read(self) -> Sequence[Work]:
        """Return what each worker has done by now; a round trip."""
        return [
            Work(examples=int(examples), waiting=waiting, busy=busy)
            for examples, waiting, busy in tf.convert_to_tensor(self._table).numpy().tolist()
        ]
