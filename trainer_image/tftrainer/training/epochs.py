"""Counts epochs and calls the user's callbacks where one begins or ends; used by training loops."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tftrainer.user.callbacks import Callbacks

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class EpochCounts:
    """How many epochs callbacks have seen; saved with the position, which does not say it."""

    begun: int = 0
    ended: int = 0


class Epochs:
    """Counts the epochs of one training."""

    def __init__(
        self,
        callbacks: Callbacks,
        *,
        batches: int,
        total: int,
        counts: EpochCounts,
        start: int = 0,
        validate: Callable[[int, Mapping[str, float]], Mapping[str, float]] | None = None,
        unfinished: Mapping[str, float] | None = None,
    ) -> None:
        """Count from here; so many `batches` make an epoch, `total` the training.

        `counts` is kept up to date; `start` is the number of the batch at which this process began.

        `validate(done, metrics)` is called at the end of an epoch; callbacks get what it returns.
        `unfinished` are the metrics of the epoch before, if the process before ended in the middle
        of this, or before what they did was saved.
        """
        self._callbacks = callbacks
        self._batches = batches
        self._total = total
        self._counts = counts
        self._start = start
        self._validate = validate
        self._unfinished = unfinished
        self._number = 0
        self._begun = -1
        self.has_callbacks = callbacks.exist
        """Whether there are any, which may change weights."""
        self.every_end_counts = self.has_callbacks or validate is not None
        """Whether something must be done at the end of every epoch."""

    def begin(self, done: int) -> bool:
        """Training begins with so many batches done; False if it must stop at once.

        The end of the epoch before is finished first, if it was not.
        """
        # Batches that a worker left out which hung may be of an epoch that has ended all the same.
        self._number = max(done // self._batches, self._counts.ended)
        self._callbacks.begin_training()
        is_between = self._number > 0 and done == self._number * self._batches
        if self._validate and self._unfinished is not None and is_between:
            self._number -= 1
            self._counts.ended = self._number
            # What it sets for this process, its end may read.
            self._callbacks.begin_epoch(self._number, again=True)
            return self.reached(done, self._unfinished)
        self._counts.ended = self._number
        return True

    def before_steps(self, done: int) -> None:
        """More steps are about to be made: the epoch begins, if it has not in this process.

        What is saved between the epochs is so always of before.
        """
        # What a worker had that hung may be of an epoch before.
        epoch = max(done // self._batches, self._number)
        if epoch > self._begun and done < self._total:
            again = epoch * self._batches < self._start or epoch < self._counts.begun
            self._begun = epoch
            self._counts.begun = epoch + 1
            self._callbacks.begin_epoch(epoch, again=again)

    def reached(self, done: int, metrics: Mapping[str, float]) -> bool:
        """Call the callbacks of epochs that have ended by now; False if training must stop."""
        while (self._number + 1) * self._batches <= min(done, self._total):
            logs = self._validate(done, metrics) if self._validate else metrics
            self._callbacks.end_epoch(self._number, logs)
            self._number += 1
            self._counts.ended = self._number
            if self._callbacks.stop_asked:
                _LOG.info("a callback stopped training after epoch %d", self._number)
                return False
        return True

    def end(self, metrics: Mapping[str, float]) -> None:
        """Training is over."""
        self._callbacks.end_training(metrics)
