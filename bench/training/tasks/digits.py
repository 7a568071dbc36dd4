"""The tiny network on real digits: MNIST's where MNIST_DIR names their folder, else scikit-learn's.

The same images as tftrainer.examples.mnist has, flat.
"""

import tensorflow as tf
from images import compiled
from tftrainer.examples import mnist


def model() -> tf.keras.Model:
    """Make the network, compiled as for model.fit."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            layers.Input(mnist.model().input_shape[1:]),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    return compiled(network)


dataset = mnist.dataset
