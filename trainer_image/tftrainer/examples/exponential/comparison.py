"""Compares the losses of a training with those of one process, when it is complete."""

import logging
from collections.abc import Callable, Mapping

import tensorflow as tf

from tftrainer.examples.exponential.reference import largest_difference

_LOG = logging.getLogger(__name__)


class Comparison(tf.keras.callbacks.Callback):  # type: ignore[misc]  # untyped
    """Notes the loss of each epoch, of which every one is a single step."""

    def __init__(self, reference: Callable[[int], list[float]]) -> None:
        """Take a function that returns the losses of so many steps in one process."""
        super().__init__()
        self._reference = reference
        self._losses: dict[int, float] = {}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Note its loss."""
        self._losses[epoch] = (logs or {})["loss"]

    def on_train_end(self, _logs: Mapping[str, float] | None = None) -> None:
        """Tell how far the curves are apart; a chief that resumed has the end of the curve only."""
        if not self._losses:
            return
        reference = self._reference(max(self._losses) + 1)
        expected = [reference[epoch] for epoch in self._losses]
        _LOG.info(
            "%d losses down to %.6g: those of one process differ by %.1e of their value at most",
            len(expected),
            expected[-1],
            largest_difference(self._losses.values(), expected),
        )
