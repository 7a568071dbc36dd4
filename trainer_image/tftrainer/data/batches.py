"""Reads batches inside a tf.function, and measures the wait; used by the training loops.

TensorFlow may read the clock at any time, unless a control dependency orders it.
"""

from collections.abc import Callable

import tensorflow as tf

from tftrainer import tf_types


def timed(
    read: Callable[[], tf_types.Tensor], after: tf_types.Tensor
) -> tuple[tf_types.Tensor, tf_types.Tensor]:
    """Return what is read, and the seconds that it was waited for (float64, no axes).

    `after` is of what comes before: waiting counts from when that is done.
    """
    began = time_after(after)
    with tf.control_dependencies([began]):
        element = read()
    with tf.control_dependencies(tf.nest.flatten(element, expand_composites=True)):
        return element, tf.timestamp() - began


def time_after(tensor: tf_types.Tensor) -> tf_types.Tensor:
    """Return the time (seconds, float64, no axes) when a tensor is known, and not before."""
    with tf.control_dependencies([tensor]):
        return tf.timestamp()


def examples_in(batch: tf_types.Tensor) -> tf_types.Tensor:
    """Return how many examples a batch has (int64, no axes): the first axis of its first part."""
    first = tf.nest.flatten(batch)[0]
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int64)
    if isinstance(first, tf.SparseTensor):
        return tf.cast(first.dense_shape[0], tf.int64)
    return tf.shape(first, tf.int64)[0]
