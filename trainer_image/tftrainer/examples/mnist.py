"""Handwritten digits: MNIST's images where MNIST_DIR names their folder, else scikit-learn's.

The latter, 1,797 digits of 8x8 pixels, lie beside this module in digits.npz: nothing is ever
downloaded, and the image need not hold scikit-learn and SciPy, which are 150 MB. MNIST_DIR is a
folder with t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz; the first 8,000 of these
10,000 images are for training and the last 2,000 for evaluation.

`--epochs=3` is enough: an epoch shows each of the few small digits twelve times, each large one
twice.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from tftrainer import Context

_SIDE = 28 if os.environ.get("MNIST_DIR") else 8
_TIMES = 2 if os.environ.get("MNIST_DIR") else 12
_MNIST_TRAINING = 8000
_HELD_OUT_EVERY = 5


def model() -> tf.keras.Model:
    """Make a small convolutional network, compiled as for model.fit."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            layers.Input((_SIDE, _SIDE, 1)),
            layers.Conv2D(16, 3, activation="relu", padding="same"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ],
        name="digits",
    )
    network.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return network


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make batches of (images, labels); those for training are shuffled."""
    images, labels = _digits(split)
    examples = tf.data.Dataset.from_tensor_slices((images, labels))
    if split == "evaluation":
        return examples.batch(256)
    shuffled = examples.shuffle(len(images), seed=context.seed)
    return shuffled.repeat(_TIMES).batch(context.batch_size)


def _digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Load images from 0 to 1 and their labels; the same split in every process."""
    folder = os.environ.get("MNIST_DIR")
    if folder:
        images, labels = _mnist(Path(folder))
        held_out = np.arange(len(images)) >= _MNIST_TRAINING
    else:
        images, labels = _small_digits()
        held_out = np.arange(len(images)) % _HELD_OUT_EVERY == 0
    wanted = held_out if split == "evaluation" else ~held_out
    return images[wanted], labels[wanted]


def _small_digits() -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(__file__).with_name("digits.npz")) as archive:
        images, labels = archive["images"], archive["labels"]
    return (images[..., np.newaxis] / 16).astype(np.float32), labels.astype(np.int32)


def _mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    images = _idx(folder / "t10k-images-idx3-ubyte.gz", header=16)
    labels = _idx(folder / "t10k-labels-idx1-ubyte.gz", header=8)
    return (images.reshape(-1, 28, 28, 1) / 255).astype(np.float32), labels.astype(np.int32)


def _idx(path: Path, header: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)
