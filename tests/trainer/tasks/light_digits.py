"""The digits of the example for a network of one layer, with an optimizer that has variables.

For tests that look at what the trainer does and not at what the network learns: half of the time
of the example's training is that of its further layers.
"""

import tensorflow as tf
from tftrainer.examples.mnist import dataset

__all__ = ["dataset", "model"]


def model() -> tf.keras.Model:
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [layers.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10)], name="digits"
    )
    network.compile(
        optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return network
