"""Captures the loss of every step, for --history.

The loss that Keras reports is a mean since the start of the epoch.
"""

import math
import threading

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.user.overriding import override


def returning_loss(model: tf_types.Model, step: tf_types.Function) -> tf_types.Function:
    """Return the step as a function (batch) -> loss of that batch on this replica (no axes).

    It is what the model's compute_loss returned, or what a step of one's own calls "loss"; NaN if
    there is neither. It keeps its type, in which losses are to be added up: over all replicas they
    are the loss of the step.
    """
    # Replicas are traced in threads that take turns in the middle of a step.
    here = threading.local()

    def compute_loss(*arguments: object, **named: object) -> tf_types.Tensor:
        here.loss = type(model).compute_loss(model, *arguments, **named)
        return here.loss

    override(model, "compute_loss", compute_loss)

    def step_and_loss(batch: tf_types.Tensor) -> tf_types.Tensor:
        here.loss = None
        result = step(batch)
        loss = result.get("loss", math.nan) if here.loss is None else here.loss
        return tf.convert_to_tensor(loss)

    return step_and_loss
