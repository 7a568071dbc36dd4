"""The digits of tftrainer.examples.mnist, timed, and judged on what they were not trained on.

For MirroredStrategy: the same global batch and seed give the same network on one replica and on
two, so `--batch-size=100` and `--logical-cpus=2 --batch-size=50` differ in time alone.
"""

import logging
import statistics
import time
from collections.abc import Mapping

import tensorflow as tf

from tftrainer import Context
from tftrainer.examples.mnist import dataset, model

__all__ = ["callbacks", "dataset", "model"]

_LOG = logging.getLogger(__name__)


def callbacks(context: Context) -> list[tf.keras.callbacks.Callback]:
    """Return what times and judges the training."""
    return [HeldOut(context)]


class HeldOut(tf.keras.callbacks.Callback):  # type: ignore[misc]  # untyped
    """Logs, when training is complete, how good the model is and how long it took."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._train_began = self._epoch_began = 0.0
        self._epochs: list[float] = []

    def on_train_begin(self, _logs: Mapping[str, float] | None = None) -> None:
        """Note the time."""
        self._train_began = time.monotonic()

    def on_epoch_begin(self, _epoch: int, _logs: Mapping[str, float] | None = None) -> None:
        """Note the time."""
        self._epoch_began = time.monotonic()

    def on_epoch_end(self, _epoch: int, _logs: Mapping[str, float] | None = None) -> None:
        """Note how long it took."""
        self._epochs.append(time.monotonic() - self._epoch_began)

    def on_train_end(self, _logs: Mapping[str, float] | None = None) -> None:
        """Evaluate on the digits held out, and tell."""
        seconds = time.monotonic() - self._train_began
        held_out = dataset("evaluation", self._context)
        found = self.model.evaluate(held_out, verbose=0, return_dict=True)
        # The first one includes the tracing, if there are others.
        epoch = statistics.median(self._epochs[1:] or self._epochs)
        _LOG.info(
            "held-out accuracy %.4f, loss %.4f; trained for %.1f s, an epoch in %.2f s",
            found["accuracy"],
            found["loss"],
            seconds,
            epoch,
        )
