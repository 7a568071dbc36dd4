"""A small graph of constants, each of its nodes on a device of its own."""

from collections.abc import Mapping

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.examples.placement.places import Places


def spread(places: Places) -> dict[str, str]:
    """Return the device for each node: two workers (or one) and a ps take turns."""
    first, last, server = places.workers[0], places.workers[-1], places.ps[0]
    return {"a": first, "b": last, "a*b": first, "a+b": last, "a*b/(a+b)": server}


def compute(devices: Mapping[str, str]) -> dict[str, tf_types.Tensor]:
    """Run the graph with each node on its device; a float32 scalar for each node."""

    # One call runs it whole: the tasks hand the tensors to each other, not through the chief.
    @tf.function
    def graph() -> dict[str, tf_types.Tensor]:
        with tf.device(devices["a"]):
            a = tf.constant(1.1)
        with tf.device(devices["b"]):
            b = tf.constant(2.3)
        with tf.device(devices["a*b"]):
            product = a * b
        with tf.device(devices["a+b"]):
            total = a + b
        with tf.device(devices["a*b/(a+b)"]):
            quotient = product / total
        return {"a": a, "b": b, "a*b": product, "a+b": total, "a*b/(a+b)": quotient}

    tensors: dict[str, tf_types.Tensor] = graph()
    return tensors
