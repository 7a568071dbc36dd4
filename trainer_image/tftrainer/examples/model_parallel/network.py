"""The network of the example exponential by hand, so that each operation has its device.

A GradientTape would place the operations of the gradients by itself. Of two layers they are four
lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.examples import exponential

_RATE = 0.05


@dataclass(frozen=True, slots=True)
class Layers:
    """Where the hidden layer and the output layer are."""

    hidden: str
    output: str


def steps(layers: Layers) -> Iterator[tuple[float, dict[str, str]]]:
    """Train for ever; yield each step's loss, and the devices of what it computed."""
    (x, y), *_ = exponential.dataset("train", Context(batch_size=exponential.POINTS))
    initial = exponential.model().get_weights()
    with tf.device(layers.hidden):
        w1, b1 = (tf.Variable(each) for each in initial[:2])
    with tf.device(layers.output):
        w2, b2 = (tf.Variable(each) for each in initial[2:])

    # One call is one step: the tasks hand the tensors to each other, not through the chief.
    @tf.function
    def step() -> tuple[tf_types.Tensor, dict[str, tf_types.Tensor]]:
        with tf.device(layers.hidden):
            hidden = tf.tanh(x @ w1 + b1)
        with tf.device(layers.output):
            error = hidden @ w2 + b2 - y
            loss = tf.reduce_mean(error**2)
            to_output = 2 * error / len(y)
            to_hidden = tf.matmul(to_output, w2, transpose_b=True)
            gradient2 = tf.matmul(hidden, to_output, transpose_a=True)
        with tf.device(layers.hidden):
            before_tanh = to_hidden * (1 - hidden**2)
            gradient1 = tf.matmul(x, before_tanh, transpose_a=True)
            w1.assign_sub(_RATE * gradient1)
            b1.assign_sub(_RATE * tf.reduce_sum(before_tanh, axis=0))
        # After to_hidden, which takes the weights as they were.
        with tf.device(layers.output):
            w2.assign_sub(_RATE * gradient2)
            b2.assign_sub(_RATE * tf.reduce_sum(to_output, axis=0))
        return loss, {"hidden layer": hidden, "its gradient": gradient1, "loss": loss}

    while True:
        loss, tensors = step()
        yield float(loss), {name: tensor.device for name, tensor in tensors.items()}
