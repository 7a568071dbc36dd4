"""The usual small convolutional network for MNIST; a step on 256 images takes a core tens of ms."""

import tensorflow as tf
from images import compiled, made_up
from tftrainer import Context

_BATCHES = 16
_EPOCH = 240


def model() -> tf.keras.Model:
    """Make the network, compiled as for model.fit."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    return compiled(network)


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make an epoch of the size of MNIST's, out of a few batches that stay in memory."""
    return made_up(
        split, (28, 28, 1), batch_size=context.batch_size, batches=_BATCHES, epoch=_EPOCH
    )
