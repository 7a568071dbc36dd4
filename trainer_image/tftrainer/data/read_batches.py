"""Counts the batches of each pass as a process reads them; used by mirrored.

Where the length of a pass is not known, what was read says where a pass has ended: reading is never
behind training. ParameterServer does without, as its batches come with their places; those that
TensorFlow splits among replicas cannot.
"""

import tensorflow as tf

from tftrainer import tf_types


class ReadBatches:
    """How many batches of each pass were read."""

    def __init__(self) -> None:
        self._counts = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=0)

    def counted(self, of_pass: tf_types.Tensor, data: tf_types.Dataset) -> tf_types.Dataset:
        """Return the same batches of a pass (int64, no axes); each counts when it is read."""

        def count(*_: tf_types.Tensor) -> bool:
            self._counts.insert(of_pass, self._counts.lookup(of_pass) + 1)
            return True

        # A filter that drops nothing, rather than a map: no batch is copied or changes its type.
        return data.filter(count)

    def of_passes(self) -> dict[int, int]:
        """Return the counts by the passes."""
        passes, counts = self._counts.export()
        return dict(zip(passes.numpy().tolist(), counts.numpy().tolist(), strict=True))
