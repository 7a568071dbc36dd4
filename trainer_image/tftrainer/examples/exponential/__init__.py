"""y = e^x on [-1, 1), data-parallel: two workers see one half of the points each.

With `--mode=synchronous` their gradients are averaged and applied once a step, so the curve of
losses is that of one process that has all points: `of_one_process` computes it, and `callbacks`
says at the end how far the two are apart. Weights and data are the same in every process, whatever
the strategy: initial weights come from seeds of their own, and nothing is shuffled.
"""

import tensorflow as tf

from tftrainer import Context
from tftrainer.examples.exponential import reference
from tftrainer.examples.exponential.comparison import Comparison

POINTS = 64


def model() -> tf.keras.Model:
    """Make a network of 1, 32 (tanh) and 1 units, compiled."""
    layers = tf.keras.layers
    weights, bias = _uniform(1.0, seed=1), _uniform(1.0, seed=2)
    hidden = layers.Dense(32, activation="tanh", kernel_initializer=weights, bias_initializer=bias)
    output = layers.Dense(1, kernel_initializer=_uniform(0.4, seed=3))
    network = tf.keras.Sequential([layers.Input((1,)), hidden, output], name="exponential")
    network.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
    return network


def dataset(_split: str, context: Context) -> tf.data.Dataset:
    """Make batches of (x, y) by rising x: with a batch size of 32, the two halves."""
    x = tf.reshape(tf.range(POINTS, dtype=tf.float32) * (2 / POINTS) - 1, [POINTS, 1])
    return tf.data.Dataset.from_tensor_slices((x, tf.exp(x))).batch(context.batch_size)


def callbacks(_context: Context) -> list[tf.keras.callbacks.Callback]:
    """Return what compares the losses with those of one process."""
    return [Comparison(of_one_process)]


def of_one_process(steps: int, batch_size: int = POINTS) -> list[float]:
    """Return the losses before each step of one process that has all the points.

    With a smaller batch size it averages the gradients of that many points at a time.
    """
    batches = dataset("train", Context(batch_size=batch_size))
    return reference.losses(model(), batches, steps)


def _uniform(limit: float, seed: int) -> tf.keras.initializers.Initializer:
    return tf.keras.initializers.RandomUniform(-limit, limit, seed=seed)
