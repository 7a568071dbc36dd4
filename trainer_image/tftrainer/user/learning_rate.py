"""The learning rate that an optimizer holds as a variable: used by callbacks, keras_fit, resume."""

from collections.abc import Iterator
from contextlib import contextmanager

from tftrainer import tf_types


def variable(model: tf_types.Model) -> tf_types.Variable | None:
    """Return the variable of the rate, which a checkpoint holds (float, no axes).

    None for a schedule: of that, only the step that it follows is saved.
    """
    optimizer = getattr(model, "optimizer", None)
    # Mixed precision wraps it.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = getattr(optimizer, "_learning_rate", None)
    if rate is None:
        # Of Keras's legacy optimizers.
        rate = getattr(optimizer, "learning_rate", None)
    return rate if hasattr(rate, "assign") and hasattr(rate, "numpy") else None


@contextmanager
def kept(model: tf_types.Model, *, wanted: bool) -> Iterator[None]:
    """Undo what this block does to the rate, if that is wanted.

    For hooks that are called once more, for an epoch of which the checkpoint already has some
    steps: a scheduler that multiplies the rate would do so twice.
    """
    rate = variable(model) if wanted else None
    before = None if rate is None else rate.numpy()
    yield
    if rate is not None:
        rate.assign(before)
