"""Restores the newest checkpoint, or starts from the beginning if the job has not saved one.

Called by parameter_server.session and mirrored. The task that writes checkpoints claims the
directory first (fence.py): an older attempt then cannot save anything newer than what is restored.
"""

import logging
from dataclasses import dataclass

from tftrainer import marker, tf_types
from tftrainer.checkpoints import Checkpoints
from tftrainer.errors import CheckpointUnavailableError
from tftrainer.job import Job

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resumed:
    """The job's checkpoints, and which of them was restored."""

    checkpoints: Checkpoints | None = None
    path: str | None = None
    last_step: int | None = None
    """Step at which this job's training ended, if it has: perhaps early, by a callback."""

    def total(self, wanted: int) -> int:
        """Return how many steps make the training complete, if `wanted` were asked for."""
        return wanted if self.last_step is None else min(wanted, self.last_step)


def resume(
    job: Job, model: tf_types.Model, step: tf_types.Variable, *, io_device: str | None
) -> Resumed:
    """Restore the model and the step; raises CheckpointUnavailableError if one is missing."""
    directory, promised = job.checkpoint_dir, job.environment.checkpoint_step
    if directory is None:
        if promised is not None:
            raise _missing(promised, "it has no checkpoint directory (TFTRAINING_CHECKPOINT_DIR)")
        _LOG.warning("no checkpoint directory: the trained model is lost when this process ends")
        return Resumed()
    keep = job.arguments.keep_checkpoints
    saved = Checkpoints(directory, keep=keep, io_device=io_device, model=model, step=step)
    path = saved.restore()
    if promised is not None and path is None:
        raise _missing(promised, f"there is none in {directory}")
    restored = int(step.numpy())
    if promised is not None and restored < promised:
        _LOG.warning(
            "this job has saved step %d, but the newest readable checkpoint in %s is of step %d: "
            "repeating the steps in between",
            promised,
            directory,
            restored,
        )
    return Resumed(saved, path, _last_step(job, directory))


def _last_step(job: Job, directory: str) -> int | None:
    # Without a job's uid, any earlier training on this computer may have left the marker.
    uid = job.environment.job_uid
    last = marker.read(directory, uid) if uid else None
    return None if last is None else last.step


def _missing(promised: int, found: str) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(
        f"this job has saved a checkpoint of step {promised}, but {found}. Training is not "
        "restarted from the beginning silently: restore the checkpoint volume, or delete the job "
        "and create it again to train from the beginning."
    )
