"""Detects that a training has diverged, before a checkpoint of it replaces a finite one.

Called by recorder. Of the metrics the loss alone is judged: others may be NaN for good reasons, as
the mean of nothing is. Before a checkpoint the trained weights are judged as well, because a loss
tells of the weights before its step. Each is judged where it is, so that one bit of it crosses the
network; reading it there takes a small part of the time that saving it does.
"""

import logging
import math
from collections.abc import Mapping

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.arguments import OnNan
from tftrainer.errors import DivergedError
from tftrainer.runtime.progress import SavedCheckpoint

_LOG = logging.getLogger(__name__)
_LOSS = "loss"


class Divergence:
    """Judges the loss and the weights of one model; raises DivergedError, or warns once of each."""

    def __init__(self, model: tf_types.Model, on_nan: OnNan) -> None:
        self._stops = on_nan is OnNan.STOP
        self._weights = _parts(model.trainable_variables)
        self._are_finite = _are_finite(self._weights)
        self._warned: set[str] = set()

    def begin(self, restored: SavedCheckpoint | None) -> None:
        """Judge the weights that training begins with.

        What is not finite from the beginning is meant to be so, and not judged again, unless it was
        restored: then an earlier version has saved it.
        """
        name = self._not_finite()
        if name is None:
            return
        if restored is not None and self._stops:
            raise DivergedError(
                f"{name} in checkpoint {restored.path} is not finite: the training that wrote it "
                "has diverged. Delete this checkpoint to resume from an older one, or use another "
                "directory; --on-nan=continue trains on."
            )
        _LOG.warning("%s is not finite before the first step: weights are not checked", name)
        self._weights = []

    def judge_loss(
        self, step: int, metrics: Mapping[str, float], saved: SavedCheckpoint | None
    ) -> None:
        """Judge what is published; `saved` is the newest checkpoint."""
        for name, value in sorted(metrics.items()):
            if math.isfinite(value):
                continue
            if name == _LOSS and self._stops:
                raise DivergedError(_diverged(f"loss is {value}", step, saved))
            self._warn(name, f"{name} is {value} at step {step}")

    def may_save(self, step: int, saved: SavedCheckpoint | None) -> bool:
        """Judge the weights before they are saved."""
        name = self._not_finite()
        if name is None:
            return True
        if self._stops:
            raise DivergedError(_diverged(f"weight {name} is not finite", step, saved))
        self._warn("weights", f"weight {name} is not finite at step {step}: no checkpoint is saved")
        return False

    def _not_finite(self) -> str | None:
        """Name a weight that is not; None if all are."""
        if not self._weights:
            return None
        finite = self._are_finite().numpy().tolist()
        pairs = zip(self._weights, finite, strict=True)
        return next((weight.name.partition(":")[0] for weight, good in pairs if not good), None)

    def _warn(self, subject: str, text: str) -> None:
        if subject not in self._warned:
            _LOG.warning("%s", text)
            self._warned.add(subject)


def _diverged(what: str, step: int, saved: SavedCheckpoint | None) -> str:
    kept, where = "There is no checkpoint of finite weights.", ""
    if saved is not None:
        kept = f"The last finite checkpoint, {saved.path} (step {saved.step}), is kept."
        where = " (in a callback: a constant one is part of the checkpoint)"
    return (
        f"training has diverged: {what} at step {step}. {kept} Lower the learning rate{where}, "
        "clip the gradients, or check the data; --on-nan=continue trains on."
    )


def _parts(variables: list[tf_types.Variable]) -> list[tf_types.Variable]:
    """Return the floating ones; of a partitioned one, its parts."""
    parts = [part for v in variables for part in getattr(v, "variables", None) or [v]]
    return [part for part in parts if part.dtype.is_floating]


def _are_finite(weights: list[tf_types.Variable]) -> tf_types.Function:
    """Make what tells of each weight whether all of it is finite.

    A graph that is made once: a new one would be sent to every server, and wait for one that hangs.
    """

    @tf.function(input_signature=[], autograph=False)
    def are_finite() -> tf_types.Tensor:
        found = []
        for weight in weights:
            with tf.device(weight.device):
                found.append(tf.reduce_all(tf.math.is_finite(weight.read_value())))
        return tf.stack(found)

    return are_finite.get_concrete_function() if weights else are_finite
