"""Every step's loss in a file, with all its digits: history.csv beside the checkpoints.

For comparing curves; TensorBoard's scalars are means, and only some of them.
"""

import tensorflow as tf

from tftrainer import files

_NAME = "history.csv"
_HEADER = "step,loss"


class History:
    """The rows of the steps so far; those after a checkpoint that is gone back to are dropped."""

    def __init__(self, directory: str, first_step: int) -> None:
        self._path = f"{directory}/{_NAME}"
        self._rows = [row for row in _rows(self._path) if int(row.partition(",")[0]) <= first_step]

    def add(self, step: int, loss: float) -> None:
        """Note the loss of a step."""
        self._rows.append(f"{step},{loss!r}")

    def write(self) -> None:
        """Write the file anew, so that it is whole at any time."""
        files.replace(self._path, "\n".join([_HEADER, *self._rows, ""]))


def _rows(path: str) -> list[str]:
    if not tf.io.gfile.exists(path):
        return []
    return [row for row in files.read(path).splitlines()[1:] if row]
