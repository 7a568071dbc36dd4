"""The tiny network on digits that come class by class, as files in folders by class do.

The buffer of `shuffle` holds three classes or so: whoever misses a part of an epoch misses classes,
and no shuffling hides it. Each of scikit-learn's digits comes nine times, moved by up to one pixel.
"""

import numpy as np
import tensorflow as tf
from images import RATE_TIMES, compiled
from sklearn.datasets import load_digits
from tftrainer import Context

EPOCHS = 16
_BUFFER = 4000
_STEPS = 203 * EPOCHS
_HELD_OUT_EVERY = 5
_MOVES = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


def model() -> tf.keras.Model:
    """Make the network. The rate falls to 0, or the class that comes last would decide."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    rate = tf.keras.optimizers.schedules.CosineDecay(2e-3 * RATE_TIMES, _STEPS)
    return compiled(network, rate)


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make batches of (images, labels); those for training go from 0 to 9, a little shuffled."""
    images, labels = _digits(split)
    examples = tf.data.Dataset.from_tensor_slices((images, labels))
    if split == "evaluation":
        return examples.batch(512)
    return examples.shuffle(_BUFFER, seed=context.seed).batch(context.batch_size)


def _digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    is_held_out = np.arange(len(labels)) % _HELD_OUT_EVERY == 0
    wanted = is_held_out if split == "evaluation" else ~is_held_out
    moved = [np.roll(images[wanted], move, axis=(1, 2)) for move in _MOVES]
    images, labels = np.concatenate(moved), np.tile(labels[wanted].astype(np.int32), len(_MOVES))
    order = np.argsort(labels, kind="stable")
    return images[order], labels[order]
