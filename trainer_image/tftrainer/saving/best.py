"""Keeps the best checkpoint by one metric, outside of the pruning (--keep-best); used by recorder.

    <checkpoint directory>/best/ckpt-<step>.*    a copy of the checkpoint, perhaps ckpt-<step>-again
    <checkpoint directory>/best/best.json        by which metric it is the best, and its value

A chief that is restarted compares with what best.json says. It is written when the copy is
complete, and only then the checkpoint before is deleted.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from tftrainer.config.arguments import Goal
from tftrainer.errors import BadConfigurationError
from tftrainer.runtime.progress import BestCheckpoint, SavedCheckpoint
from tftrainer.saving import files
from tftrainer.saving.checkpoints import copy, unavailable, write_state

_LOG = logging.getLogger(__name__)
_FOLDER = "best"
_NAME = "best.json"


@dataclass(frozen=True, slots=True)
class Best:
    """Where the best checkpoint is kept, and by which metric it is chosen."""

    directory: str
    goal: Goal

    def read(self) -> BestCheckpoint | None:
        """Return the best of an earlier attempt, if it was chosen by the same metric."""
        try:
            document = files.read_document(f"{self._folder}/{_NAME}")
            if document is None or document["metric"] != self.goal.metric:
                return None
            # Not as it is there, which is as the process before saw the directory.
            name = str(document["path"]).rpartition("/")[2]
            return BestCheckpoint(
                step=int(document["step"]),
                metric=self.goal.metric,
                value=float(document["value"]),
                path=f"{self._folder}/{name}",
            )
        except files.GarbledFileError as error:
            _LOG.warning("%s; ignoring it", error)
            return None
        except (ValueError, KeyError, TypeError) as error:
            _LOG.warning("%s/%s is garbled (%r); ignoring it", self._folder, _NAME, error)
            return None
        except (tf.errors.OpError, OSError) as error:
            raise unavailable(self._folder, "read", error) from error

    def kept(
        self, known: BestCheckpoint | None, saved: SavedCheckpoint, metrics: Mapping[str, float]
    ) -> BestCheckpoint | None:
        """Keep a checkpoint if it is better than what is known; return the best of the two.

        Raises BadConfigurationError if there is no such metric, CheckpointUnavailableError if it
        cannot be copied.
        """
        value = metrics.get(self.goal.metric)
        if value is None:
            raise BadConfigurationError(
                f"--keep-best={self.goal.metric}: there is no such metric at the end of an epoch. "
                f"There are {', '.join(sorted(metrics))}."
            )
        worst = float("-inf") if self.goal.larger_is_better else float("inf")
        if not self.goal.is_better(value, worst if known is None else known.value):
            return known
        best = BestCheckpoint(saved.step, self.goal.metric, value, self._path(known, saved.step))
        self._copy(saved, best)
        _LOG.info("kept the best checkpoint, by %s: %s", best.metric, best.path)
        return best

    def _copy(self, saved: SavedCheckpoint, best: BestCheckpoint) -> None:
        """Copy a checkpoint, and delete the one before."""
        document = {
            "version": 1,
            "metric": best.metric,
            "value": best.value,
            "step": best.step,
            "path": best.path,
        }
        name = best.path.rpartition("/")[2]
        try:
            tf.io.gfile.makedirs(self._folder)
            copy(saved.path, best.path)
            files.replace(f"{self._folder}/{_NAME}", json.dumps(document))
            write_state(self._folder, [name])
            for file in tf.io.gfile.glob(f"{self._folder}/ckpt-*"):
                if not file.startswith(f"{best.path}."):
                    tf.io.gfile.remove(file)
        except (tf.errors.OpError, OSError) as error:
            raise unavailable(self._folder, "written", error) from error

    @property
    def _folder(self) -> str:
        return f"{self.directory.rstrip('/')}/{_FOLDER}"

    def _path(self, known: BestCheckpoint | None, step: int) -> str:
        """Return where the best of this step goes; not over the one that is known, until then."""
        path = f"{self._folder}/ckpt-{step}"
        return f"{path}-again" if known is not None and known.path == path else path
