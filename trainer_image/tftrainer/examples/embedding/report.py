"""Tells where the variables are when training begins, and how good the model is when it ends."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

_LOG = logging.getLogger(__name__)


class Report(tf.keras.callbacks.Callback):  # type: ignore[misc]  # untyped
    """Logs what each device holds, and the accuracy on data that was held out."""

    def __init__(self, held_out: tf.data.Dataset) -> None:
        super().__init__()
        self._held_out = held_out

    def on_train_begin(self, _logs: Mapping[str, float] | None = None) -> None:
        """Say what of the model is where; the optimizer's variables are beside each."""
        for variable in self.model.trainable_variables:
            _LOG.info("%s %s is on %s", variable.name, variable.shape, variable.device)
        held = bytes_by_device(self.model.trainable_variables)
        whole = sum(held.values())
        for device, size in sorted(held.items()):
            share = 100 * size / whole
            _LOG.info("%s holds %.1f MB of the model, %.0f %%", device, size / 1e6, share)

    def on_train_end(self, _logs: Mapping[str, float] | None = None) -> None:
        """Say how often the model is right about texts that it has not seen."""
        # In this process, batch by batch: only the rows that a batch needs are fetched.
        right = [
            np.mean((self.model(words, training=False).numpy() > 0) == (labels.numpy() > 0))
            for words, labels in self._held_out
        ]
        _LOG.info("held-out accuracy %.4f, where guessing gives 0.5", np.mean(right))


def bytes_by_device(variables: Iterable[tf.Variable]) -> Mapping[str, int]:
    """Add up the sizes of the variables on each device."""
    held: Counter[str] = Counter()
    for variable in variables:
        held[variable.device] += variable.dtype.size * variable.shape.num_elements()
    return held
