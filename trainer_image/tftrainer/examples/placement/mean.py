"""The mean of a data set, map and reduce: each worker takes its slice's, the ps joins them."""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.examples.placement.places import Places


@dataclass(frozen=True, slots=True)
class SplitMean:
    """What came out of one way to cut the data."""

    parts: Sequence[tf_types.Tensor]
    """The mean of each slice, where its worker left it."""
    plain: tf_types.Tensor
    """The mean of these means: that of the data only where the slices are equal."""
    weighted: tf_types.Tensor
    """The same, each weighted by the size of its slice: always that of the data."""


def equal_sizes(examples: int, workers: int) -> list[int]:
    """Return the sizes of slices that differ by one at most."""
    return [examples // workers + (i < examples % workers) for i in range(workers)]


def unequal_sizes(examples: int, workers: int) -> list[int]:
    """Return the sizes of slices of which each later one is larger: 1, 2, 3 ... shares."""
    shares = workers * (workers + 1) // 2
    sizes = [examples * (i + 1) // shares for i in range(workers)]
    return [*sizes[:-1], examples - sum(sizes[:-1])]


def of_slices(values: tf_types.Tensor, sizes: Sequence[int], places: Places) -> SplitMean:
    """Map over the workers, reduce on the first ps; `values` is a vector, one size a worker."""

    @tf.function
    def map_and_reduce(
        whole: tf_types.Tensor,
    ) -> tuple[list[tf_types.Tensor], tf_types.Tensor, tf_types.Tensor]:
        parts = []
        for part, worker in zip(tf.split(whole, sizes), places.workers, strict=True):
            with tf.device(worker):
                parts.append(tf.reduce_mean(part))
        with tf.device(places.ps[0]):
            means, weights = tf.stack(parts), tf.constant(sizes, whole.dtype)
            plain = tf.reduce_mean(means)
            weighted = tf.reduce_sum(means * weights) / tf.reduce_sum(weights)
        return parts, plain, weighted

    return SplitMean(*map_and_reduce(values))
