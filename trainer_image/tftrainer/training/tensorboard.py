"""Writes scalars for TensorBoard to logs/<role>, without importing TensorBoard; used by recorder.

tf.summary.scalar imports that package, which costs time and memory, and the record does not need
it. Workers and ps have no volume, so the chief writes the scalars of workers.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

CHIEF = "chief"
EVALUATOR = "evaluator"


class Logs:
    """The event files beside the checkpoints; writes nothing if there is no directory."""

    def __init__(self, checkpoint_dir: str | None) -> None:
        self._directory = f"{checkpoint_dir}/logs" if checkpoint_dir else None
        self._writers: dict[str, Any] = {}
        plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        self._metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin)

    def write(self, role: str, step: int, values: Mapping[str, float]) -> None:
        """Write and flush one role's values of one step; a role's files begin with the first."""
        if self._directory is None or not values:
            return
        if role not in self._writers:
            self._writers[role] = tf.summary.create_file_writer(f"{self._directory}/{role}")
        writer = self._writers[role]
        with writer.as_default():
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value), step=step, metadata=self._metadata)
        writer.flush()
