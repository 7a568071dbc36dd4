"""The usual small convolutional network for MNIST; a step on 256 images takes a core tens of ms."""

import tensorflow as tf
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
    network.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return network


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make an epoch of the size of MNIST's, out of a few batches that stay in memory."""
    seed = (2, 0) if split == "evaluation" else (1, 0)
    examples = _BATCHES * context.batch_size
    images = tf.random.stateless_uniform([examples, 28, 28, 1], seed)
    labels = tf.random.stateless_uniform([examples], seed, maxval=10, dtype=tf.int32)
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).batch(context.batch_size)
    return batches.cache().repeat(_EPOCH // _BATCHES)
