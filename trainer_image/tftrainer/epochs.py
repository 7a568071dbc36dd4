"""Which epoch it is, and the callbacks that are told when one begins and ends."""

import logging
from collections.abc import Mapping

from tftrainer.callbacks import Callbacks

_LOG = logging.getLogger(__name__)


class Epochs:
    """Counts the epochs of one training."""

    def __init__(self, callbacks: Callbacks, *, steps: int, total: int) -> None:
        """Count from here; `steps` make an epoch, `total` the training."""
        self._callbacks = callbacks
        self._steps = steps
        self._total = total
        self._number = 0
        self.every_end_counts = callbacks.any
        """Whether somebody is told of each end, so that none may be passed over."""

    def begin(self, step: int) -> None:
        """Training begins at this step."""
        self._number = step // self._steps
        self._callbacks.begin_training()
        if step < self._total:
            self._callbacks.begin_epoch(self._number)

    def reached(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Tell of the epochs that are over by this step; False if training has to end here."""
        while (self._number + 1) * self._steps <= min(step, self._total):
            self._callbacks.end_epoch(self._number, metrics)
            self._number += 1
            if self._callbacks.stop_asked:
                _LOG.info("a callback ends training at step %d of %d", step, self._total)
                return False
            if self._number * self._steps < self._total:
                self._callbacks.begin_epoch(self._number)
        return True

    def end(self, metrics: Mapping[str, float]) -> None:
        """Training is over."""
        self._callbacks.end_training(metrics)
