"""Writes scalars for TensorBoard to logs/<role>, without importing TensorBoard; used by recorder.

Nor by tf.summary: that runs operations, and the first of each kind waits for all servers that
TensorFlow knows, one that hangs too. Workers and ps have no volume, so the chief writes the scalars
of workers.
"""

import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

# There is no public one in TensorFlow 2. The thread that it has writes and runs no operations.
from tensorflow.python.summary.writer.event_file_writer import EventFileWriter

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
            self._writers[role] = EventFileWriter(f"{self._directory}/{role}")
        writer = self._writers[role]
        scalars = [self._scalar(name, value) for name, value in values.items()]
        summary = tf.compat.v1.Summary(value=scalars)
        writer.add_event(tf.compat.v1.Event(wall_time=time.time(), step=step, summary=summary))
        writer.flush()

    def _scalar(self, name: str, value: float) -> Any:  # noqa: ANN401
        tensor = tf.make_tensor_proto(value, tf.float32)
        return tf.compat.v1.Summary.Value(tag=name, metadata=self._metadata, tensor=tensor)
