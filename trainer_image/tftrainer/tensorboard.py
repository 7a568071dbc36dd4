"""Writes scalars that TensorBoard reads, without TensorBoard's package.

tf.summary.scalar needs that package since TensorFlow 2.21; the record it writes does not.
"""

from collections.abc import Mapping

import tensorflow as tf


class Scalars:
    """One event file; or nothing, where there is no directory to write to."""

    def __init__(self, directory: str | None) -> None:
        self._writer = tf.summary.create_file_writer(directory) if directory else None
        plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        self._metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write and flush the values of one step."""
        if self._writer is None:
            return
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value), step=step, metadata=self._metadata)
        self._writer.flush()


def directory(checkpoint_dir: str | None, role: str) -> str | None:
    """Where a role's event files are kept: beside the checkpoints."""
    return f"{checkpoint_dir}/logs/{role}" if checkpoint_dir else None
