"""A bag of words: the sum of its words' embeddings says whether more of them are good than bad.

The table of embeddings is nearly all of the model, and what parameter servers are for: no ps has to
hold it whole (`--partition-bytes`), and a worker fetches and changes only the rows of its batch.

Nothing is loaded. Texts are drawn inside tf.data from a stateless seed: of 200,000 words few are
frequent and most are rare. Which words are good is a secret of the labels, to be learned word by
word; whoever does not know it is right half of the time.
"""

import tensorflow as tf

from tftrainer import Context
from tftrainer.examples.embedding.report import Report

WORDS = 200_000
DIMENSIONS = 32
WORDS_A_TEXT = 15
"""Odd, so that no text is neither good nor bad."""
_TEXTS = {"train": 64_000, "evaluation": 4_096}
_SKEW = 8
_SEEDS = {"train": 1, "evaluation": 2}


def model() -> tf.keras.Model:
    """Make the table and one unit that judges the sum; compiled."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            layers.Input((WORDS_A_TEXT,), dtype=tf.int64),
            layers.Embedding(WORDS, DIMENSIONS, name="words"),
            layers.Lambda(lambda rows: tf.reduce_sum(rows, axis=1), name="sum"),
            layers.Dense(1, name="judge"),
        ],
        name="bag_of_words",
    )
    network.compile(
        # It changes the rows of a batch and leaves the others alone; Adam would touch all of them.
        optimizer=tf.keras.optimizers.Adagrad(0.5),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)],
    )
    return network


def dataset(split: str, context: Context) -> tf.data.Dataset:
    """Make batches of (words, label); those for training are shuffled by whole batches."""
    batches = _TEXTS[split] // context.batch_size
    numbers = tf.data.Dataset.range(batches)
    if split == "train":
        numbers = numbers.shuffle(batches, seed=context.seed)
    return numbers.map(
        lambda number: texts(number, context.batch_size, _SEEDS[split]),
        num_parallel_calls=tf.data.AUTOTUNE,
    )


def texts(number: tf.Tensor, count: int, seed: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Draw batch `number`: words of int64[count, WORDS_A_TEXT] and labels of float32[count, 1]."""
    drawn = tf.random.stateless_uniform([count, WORDS_A_TEXT], seed=tf.stack([number, seed]))
    # A quarter of what is drawn are the same six words; a third of all words never come.
    words = tf.cast(drawn**_SKEW * WORDS, tf.int64)
    good = tf.reduce_sum(tf.cast(is_good(words), tf.int32), axis=1, keepdims=True)
    return words, tf.cast(2 * good > WORDS_A_TEXT, tf.float32)


def is_good(words: tf.Tensor) -> tf.Tensor:
    """Tell which words (int64) are good: about every other, without any order in it."""
    return (words * 2_654_435_761 // 2**16) % 2 == 1


def callbacks(context: Context) -> list[tf.keras.callbacks.Callback]:
    """Return what tells where the table is and how good the model became."""
    return [Report(dataset("evaluation", context))]
