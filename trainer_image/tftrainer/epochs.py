"""Counts epochs and calls the user's callbacks where one begins or ends; used by training loops."""

import logging
from collections.abc import Mapping

from tftrainer.callbacks import Callbacks

_LOG = logging.getLogger(__name__)


class Epochs:
    """Counts the epochs of one training."""

    def __init__(self, callbacks: Callbacks, *, batches: int, total: int) -> None:
        """Count from here; so many `batches` make an epoch, `total` the training."""
        self._callbacks = callbacks
        self._batches = batches
        self._total = total
        self._number = 0
        self.has_callbacks = callbacks.any
        """Whether callbacks must be called at the end of every epoch."""

    def begin(self, done: int) -> None:
        """Training begins with so many batches done."""
        self._number = done // self._batches
        self._callbacks.begin_training()
        if done < self._total:
            self._callbacks.begin_epoch(self._number)

    def reached(self, done: int, metrics: Mapping[str, float]) -> bool:
        """Call the callbacks of epochs that have ended by now; False if training must stop."""
        while (self._number + 1) * self._batches <= min(done, self._total):
            self._callbacks.end_epoch(self._number, metrics)
            self._number += 1
            if self._callbacks.stop_asked:
                _LOG.info("a callback stopped training after epoch %d", self._number)
                return False
            if self._number * self._batches < self._total:
                self._callbacks.begin_epoch(self._number)
        return True

    def end(self, metrics: Mapping[str, float]) -> None:
        """Training is over."""
        self._callbacks.end_training(metrics)
