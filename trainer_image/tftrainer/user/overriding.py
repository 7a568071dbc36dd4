"""Replaces methods of one Keras model or optimizer; called by whatever stands between it and Keras.

Not by setattr, which Keras takes for the adding of a part, to be tracked and saved.
"""

from tftrainer import tf_types


def override(owner: tf_types.Model | tf_types.Optimizer, name: str, value: object) -> None:
    """Give it an attribute, in the place of its class's."""
    object.__setattr__(owner, name, value)


def restore(owner: tf_types.Model | tf_types.Optimizer, name: str) -> None:
    """Take back what was given last: its class's counts again."""
    object.__delattr__(owner, name)
