"""Writes the loss of every step to history.csv beside the checkpoints, for --history.

For comparing curves exactly: TensorBoard's scalars are means. Used by recorder.
"""

import tensorflow as tf

from tftrainer.saving import files
from tftrainer.saving.checkpoints import reached

_NAME = "history.csv"
_HEADER = "step,loss"


class History:
    """The rows up to now; rows after the checkpoint that training resumed from are dropped.

    Raises CheckpointUnavailableError where they cannot be read or written: who compares curves
    would not see a gap.
    """

    def __init__(self, directory: str, first_step: int) -> None:
        self._directory = directory
        self._path = f"{directory}/{_NAME}"
        with reached(directory, "read", what=_NAME):
            rows = _rows(self._path)
        self._rows = [row for row in rows if int(row.partition(",")[0]) <= first_step]

    def add(self, step: int, loss: float) -> None:
        """Record the loss of a step."""
        self._rows.append(f"{step},{loss!r}")

    def write(self) -> None:
        """Replace the file, so that it is complete at any time."""
        with reached(self._directory, "written", what=_NAME):
            files.replace(self._path, "\n".join([_HEADER, *self._rows, ""]))


def _rows(path: str) -> list[str]:
    if not tf.io.gfile.exists(path):
        return []
    return [row for row in files.read(path).splitlines()[1:] if row]
