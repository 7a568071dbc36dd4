"""Writes the loss of every step to history.csv beside the checkpoints, for --history.

For comparing curves exactly: TensorBoard's scalars are means. Used by recorder.
"""

import tensorflow as tf

from tftrainer.saving import files

_NAME = "history.csv"
_HEADER = "step,loss"


class History:
    """The rows up to now; rows after the checkpoint that training resumed from are dropped."""

    def __init__(self, directory: str, first_step: int) -> None:
        self._path = f"{directory}/{_NAME}"
        self._rows = [row for row in _rows(self._path) if int(row.partition(",")[0]) <= first_step]

    def add(self, step: int, loss: float) -> None:
        """Record the loss of a step."""
        self._rows.append(f"{step},{loss!r}")

    def write(self) -> None:
        """Replace the file, so that it is complete at any time."""
        files.replace(self._path, "\n".join([_HEADER, *self._rows, ""]))


def _rows(path: str) -> list[str]:
    if not tf.io.gfile.exists(path):
        return []
    return [row for row in files.read(path).splitlines()[1:] if row]
