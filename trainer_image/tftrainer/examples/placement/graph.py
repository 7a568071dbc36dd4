"""Two small graphs of constants, whose nodes are on devices of their own."""

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


def spread_constants(places: Places) -> dict[str, str]:
    """Return the device for each node of the graph of whole numbers."""
    first, last, server = places.workers[0], places.workers[-1], places.ps[0]
    return {"3 + 4": first, "5 * 6 + 4": last, "(3 + 4) * (5 * 6 + 4)": server}


def constants(devices: Mapping[str, str]) -> dict[str, tf_types.Tensor]:
    """Run the graph of constants that ends in 238; an int32 scalar for each node."""
    names = list(devices)

    @tf.function
    def graph() -> list[tf_types.Tensor]:
        with tf.device(devices[names[0]]):
            total = tf.constant(3) + tf.constant(4)
        with tf.device(devices[names[1]]):
            other = tf.constant(5) * tf.constant(6) + tf.constant(4)
        with tf.device(devices[names[2]]):
            return [total, other, total * other]

    return dict(zip(names, graph(), strict=True))
