"""Saves and restores checkpoints; knows nothing of steps, strategies or time.

Only the process that holds this writes: under ParameterServer that is the chief, through its own
CPU device, so that no ps needs the volume. A checkpoint is never ignored silently: if there are
some and none can be read, that is an error, not a start from nothing.
"""

import logging
import re
from datetime import UTC, datetime
from typing import Any

import tensorflow as tf

from tftrainer.errors import BadConfigurationError, CheckpointUnavailableError
from tftrainer.progress import SavedCheckpoint

_LOG = logging.getLogger(__name__)
# A lost ps, which is no fault of the directory.
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


class Checkpoints:
    """The checkpoints of one directory, for one model and its step."""

    def __init__(self, directory: str, *, keep: int, io_device: str | None, **parts: Any) -> None:  # noqa: ANN401
        self._directory = directory
        self._options = tf.train.CheckpointOptions(experimental_io_device=io_device)
        self._checkpoint = tf.train.Checkpoint(**parts)
        try:
            tf.io.gfile.makedirs(directory)
            self._manager = tf.train.CheckpointManager(self._checkpoint, directory, keep)
        except (tf.errors.OpError, OSError) as error:
            raise _unavailable(directory, "opened", error) from error

    def restore(self) -> str | None:
        """Restore the newest checkpoint that can be read; None if there is none at all."""
        paths = _newest_first(self._directory, self._manager.checkpoints)
        failures = []
        for path in paths:
            # First, and apart: a restore that fails half way leaves a model that is partly this
            # checkpoint and partly the next older one.
            if wrong := defect(path):
                _LOG.warning("checkpoint %s cannot be read, trying an older one: %s", path, wrong)
                failures.append(f"{path}: {wrong}")
                continue
            self._restore(path)
            return path
        if failures:
            raise CheckpointUnavailableError(
                f"no checkpoint in {self._directory} can be read ({failures[0]}). To start from "
                "the beginning, empty the directory or name another."
            )
        return None

    def save(self, step: int) -> SavedCheckpoint:
        """Write one that is named after the step, and drop the oldest."""
        try:
            path = self._manager.save(checkpoint_number=step, options=self._options)
        except _LOST:
            raise
        except (tf.errors.OpError, OSError) as error:
            raise _unavailable(self._directory, "written", error) from error
        return SavedCheckpoint(step=step, path=path, time=datetime.now(UTC))

    def _restore(self, path: str) -> None:
        try:
            status = self._checkpoint.restore(path, options=self._options)
            status.assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
            raise BadConfigurationError(
                f"checkpoint {path} does not fit this model: {str(error)[:1000]} If the model was "
                "changed on purpose, name another checkpoint directory."
            ) from error


def found(path: str, step: int) -> SavedCheckpoint:
    """Describe a checkpoint that an earlier process wrote."""
    written = tf.io.gfile.stat(f"{path}.index").mtime_nsec / 1e9
    return SavedCheckpoint(step=step, path=path, time=datetime.fromtimestamp(written, UTC))


def found_or_none(path: str, step: int) -> SavedCheckpoint | None:
    """Do the same for one that the chief may have deleted meanwhile."""
    try:
        return found(path, step)
    except tf.errors.OpError:
        return None


def defect(path: str) -> str | None:
    """Read every byte and compare its checksum; what is wrong, or None."""
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except Exception as error:  # noqa: BLE001 -- the reader raises whatever pybind makes of a status
        return f"{type(error).__name__}: {error}"
    return None


def _newest_first(directory: str, known: list[str]) -> list[str]:
    """List the manager's own, then files it does not know (its state file may be lost)."""
    found = {
        int(match[1]): path.removesuffix(".index")
        for path in tf.io.gfile.glob(f"{directory}/ckpt-*.index")
        if (match := re.search(r"ckpt-(\d+)\.index$", path))
    }
    newest = list(reversed(known))
    return newest + [path for _, path in sorted(found.items(), reverse=True) if path not in newest]


def _unavailable(directory: str, verb: str, error: Exception) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(
        f"checkpoints in {directory} cannot be {verb}: {error}. Check that the volume is mounted, "
        "has room, and may be written by this user."
    )
