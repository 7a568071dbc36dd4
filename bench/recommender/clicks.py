"""Clicks of users on items in contexts, whose probabilities are known, so is the best AUC.

Run by the trainer's Python: by `python -m tftrainer`, and imported by plain.py. Nothing
is loaded or kept: every example is drawn from a stateless seed, and what is true of a user or an
item is computed from its number. A few users and items are frequent, most are rare.
"""

import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tftrainer import Context

from bench.recommender.sizes import BATCH, BATCHES

ROWS = {"users": 1_200_000, "items": 800_000, "contexts": 50_000}
DIMENSIONS = 16
_SKEW = {"users": 12, "items": 12, "contexts": 3}
_SEEDS = {"train": 1, "evaluation": 2}
_TASTES = 3
"""What is true of each user and of each item, beside how eager or good it is."""


def model() -> tf.keras.Model:
    """Make a table for each column, the match of user and item, and a small network; compiled."""
    layers = tf.keras.layers
    inputs = {name: layers.Input([], dtype=tf.int64, name=name) for name in ROWS}
    rows = {
        name: layers.Embedding(count, DIMENSIONS, name=f"{name}_table")(inputs[name])
        for name, count in ROWS.items()
    }
    match = layers.Multiply()([rows["users"], rows["items"]])
    hidden = layers.Dense(32, activation="relu")(layers.Concatenate()([*rows.values(), match]))
    made = tf.keras.Model(inputs, layers.Dense(1)(hidden), name="recommender")
    made.compile(
        # It changes the rows of a batch and leaves the others alone; Adam would touch all of them.
        optimizer=tf.keras.optimizers.Adagrad(0.05, initial_accumulator_value=1e-5),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    )
    return made


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make batches of (columns, click); those for training are shuffled by whole batches."""
    numbers = tf.data.Dataset.range(BATCHES[split])
    if split == "train":
        numbers = numbers.shuffle(BATCHES[split], seed=context.seed)
    return numbers.map(
        lambda number: drawn(number, context.batch_size, _SEEDS[split])[:2],
        num_parallel_calls=tf.data.AUTOTUNE,
    )


def drawn(
    number: tf.Tensor, count: int, seed: int
) -> tuple[Mapping[str, tf.Tensor], tf.Tensor, tf.Tensor]:
    """Draw a batch: columns of int64[count], clicks and probabilities of float32[count, 1]."""
    uniform = tf.random.stateless_uniform(
        [len(ROWS) + 1, count], seed=tf.stack([number, tf.cast(seed, number.dtype)])
    )
    columns = {
        name: tf.cast(uniform[row] ** _SKEW[name] * ROWS[name], tf.int64)
        for row, name in enumerate(ROWS)
    }
    probability = tf.sigmoid(_logit(**columns))
    return columns, tf.cast(uniform[-1] < probability, tf.float32)[:, None], probability[:, None]


def _logit(users: tf.Tensor, items: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
    bias = _secret(users, 0) + _secret(items, 1) + 0.5 * _secret(contexts, 2)
    shared = sum(_secret(users, 10 + k) * _secret(items, 20 + k) for k in range(_TASTES))
    return bias + 1.5 * shared - 0.5


def _secret(numbers: tf.Tensor, what: int) -> tf.Tensor:
    """Return something about each, the same each time: float32 from -1.7 to 1.7, evenly."""
    mixed = (numbers + 1) * 2_654_435_761 + what * 40_503_001
    mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, 15)) * 2_246_822_519
    mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, 13))
    even = tf.cast(tf.math.floormod(mixed, 1_000_003), tf.float32) / 1_000_003
    return 3.4 * (even - 0.5)


def auc(clicks: NDArray[np.float32], scores: NDArray[np.float32]) -> float:
    """Return how often a click has a higher score than what is none, from 0 to 1."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positive = clicks > 0
    count = int(positive.sum())
    above = ranks[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(scores) - count)))


class Report(tf.keras.callbacks.Callback):  # type: ignore[misc]  # untyped
    """Prints when each epoch has ended, and the AUC on held-out clicks beside the best possible."""

    def on_epoch_end(self, epoch: int, _logs: Mapping[str, float] | None = None) -> None:
        """Print the epoch's number from 1 and the time (seconds)."""
        print("epoch", epoch + 1, time.monotonic(), flush=True)

    def on_train_end(self, _logs: Mapping[str, float] | None = None) -> None:
        """Print both AUCs; the model is asked in this process, which fetches only rows in need."""
        score = tf.function(lambda columns: self.model(columns, training=False))
        clicks, scores, best = [], [], []
        for number in tf.data.Dataset.range(BATCHES["evaluation"]):
            columns, clicked, probability = drawn(number, BATCH, _SEEDS["evaluation"])
            scores.append(score(columns).numpy().ravel())
            clicks.append(clicked.numpy().ravel())
            best.append(probability.numpy().ravel())
        clicked_in_all = np.concatenate(clicks)
        found = auc(clicked_in_all, np.concatenate(scores))
        print("auc", found, auc(clicked_in_all, np.concatenate(best)), flush=True)


def callbacks() -> list[tf.keras.callbacks.Callback]:
    """Return what tells how fast and how well it is trained."""
    return [Report()]
