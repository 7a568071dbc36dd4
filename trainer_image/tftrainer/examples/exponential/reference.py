"""What one process computes that has all the data: the curve that synchronous training must give.

A plain loop of TensorFlow, which shares nothing with the trainer's.
"""

from collections.abc import Iterable

import tensorflow as tf


def losses(
    network: tf.keras.Model, batches: Iterable[tuple[tf.Tensor, tf.Tensor]], steps: int
) -> list[float]:
    """Train a compiled network in place; return the loss before each of the steps.

    Every step takes all the batches: it averages their gradients, each weighted by its examples,
    and applies the average once.
    """
    parts = list(batches)
    examples = sum(len(y) for _, y in parts)
    shares = [len(y) / examples for _, y in parts]
    variables = network.trainable_variables
    network.optimizer.build(variables)

    @tf.function
    def loss_and_gradients(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = network.compute_loss(x, y, network(x, training=True))
        return [loss, *tape.gradient(loss, variables)]

    curve = []
    for _ in range(steps):
        found = [loss_and_gradients(x, y) for x, y in parts]
        loss, *gradients = [
            sum(share * value for share, value in zip(shares, values, strict=True))
            for values in zip(*found, strict=True)
        ]
        network.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        curve.append(float(loss))
    return curve


def largest_difference(curve: Iterable[float], other: Iterable[float]) -> float:
    """Return how far two curves are apart where they are farthest, as a share of the second."""
    return max(abs(a - b) / abs(b) for a, b in zip(curve, other, strict=True))
