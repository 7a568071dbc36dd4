"""Trainer of a TFTrainingJob: runs a user's plain Keras model under any strategy.

Importing this package must not import TensorFlow: arguments are checked before it.
"""

from tftrainer.context import Context

__all__ = ["Context"]
__version__ = "0.1.0"
