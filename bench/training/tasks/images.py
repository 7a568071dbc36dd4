"""What the networks for images share: how they are compiled, and made-up images to train on."""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

RATE_TIMES = float(os.environ.get("RATE_TIMES", "1"))
"""By which quality.py has learning rates multiplied."""


def compiled(network: tf.keras.Model, rate: Any = 1e-3 * RATE_TIMES) -> tf.keras.Model:  # noqa: ANN401
    """Compile as for model.fit: ten classes, of which the network gives the logits.

    `rate` is Adam's: a number, or a schedule of Keras's.
    """
    network.compile(
        optimizer=tf.keras.optimizers.Adam(rate),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return network


def made_up(
    split: str, shape: Sequence[int], *, batch_size: int, batches: int, epoch: int
) -> tf.data.Dataset:
    """Make an epoch of so many batches, out of a few that stay in memory."""
    seed = (2, 0) if split == "evaluation" else (1, 0)
    examples = batches * batch_size
    images = tf.random.stateless_uniform([examples, *shape], seed)
    labels = tf.random.stateless_uniform([examples], seed, maxval=10, dtype=tf.int32)
    few = tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch_size)
    return few.cache().repeat(epoch // batches)
