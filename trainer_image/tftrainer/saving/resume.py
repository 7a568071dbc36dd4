"""Restores the newest checkpoint, or starts from the beginning if the job has not saved one.

Called by training.session. The task that writes checkpoints claims the directory first (fence.py):
an older attempt then cannot save anything newer than what is restored.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tftrainer import tf_types
from tftrainer.config.job import Job
from tftrainer.data.position import Length, Position
from tftrainer.errors import BadConfigurationError, CheckpointUnavailableError
from tftrainer.saving import epoch_end, marker, storage
from tftrainer.saving.checkpoints import Checkpoints, Devices, remove_unfinished, step_of
from tftrainer.saving.fence import Fence
from tftrainer.saving.marker import Marker
from tftrainer.user import learning_rate

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resumed:
    """The job's checkpoints, and which of them was restored."""

    checkpoints: Checkpoints | None = None
    path: str | None = None
    step: int = 0
    """Step of that checkpoint."""
    is_own: bool = True
    """Whether it lies in the job's own directory, rather than where --resume-from says."""
    origin: str | None = None
    """Whose training it is of, if it is not this job's."""
    last: Marker | None = None
    """Where this job's training ended, if it has: perhaps early, by a callback."""

    unfinished: Mapping[str, float] | None = None
    """Metrics of the epoch that ends with that checkpoint, if its end was under way."""
    saved_position: Position | None = None
    """What that checkpoint says; None without one, and in one of an older trainer."""

    @property
    def is_complete(self) -> bool:
        """Whether this job's training is complete, and its callbacks are done with it."""
        last = self.last
        return last is not None and last.is_complete and last.step == self.step

    def position(self, seed: int, length: Length, batches_a_step: int = 1) -> Position:
        """Return where in the data training begins; `seed` is for one that begins anew."""
        if self.saved_position is None:
            # An older trainer counted steps alone, and cannot say what they have seen.
            epoch = self.step * batches_a_step // length.of_epoch
            start = Position(seed, length.batch_size, length.of_epoch)
            return replace(start, number=epoch * length.of_epoch, data_pass=epoch)
        known = self._counted(self.saved_position).fitted(
            batch_size=length.batch_size,
            epoch_batches=length.of_epoch,
            pass_batches=length.of_pass,
        )
        if length.is_endless:
            # Rather another order than reading all that was read.
            return replace(known, data_pass=known.data_pass + 1, index=0, missing=())
        return known

    def _counted(self, position: Position) -> Position:
        """Count what workers trained on that were not waited for, until the weights were read.

        The position, which was taken before, has it missing, so it is trained on again.
        """
        named = step_of(self.path or "")
        late = 0 if named is None else max(0, self.step - named)
        return replace(position, repeated=position.repeated + late * position.batch_size)

    def total(self, wanted: int, start: Position, batches_a_step: int) -> int:
        """Return how many batches make the training complete, if `wanted` were asked for.

        It begins at `start`. Raises BadConfigurationError if another training has already made them
        all.
        """
        if self.last is not None:
            return min(wanted, start.number + (self.last.step - self.step) * batches_a_step)
        if self.origin is not None and start.has_made(wanted):
            raise BadConfigurationError(
                f"nothing is left to train: {self.path}, of {self.origin}, is of step {self.step}, "
                "and all epochs of this job are done there. To continue from it, raise --epochs; "
                "to train from the beginning, use another checkpoint directory."
            )
        return wanted


def resume(
    job: Job,
    model: tf_types.Model,
    step: tf_types.Variable,
    *,
    devices: Devices | None = None,
    fence: Fence | None = None,
) -> Resumed:
    """Restore the model and the step; raises CheckpointUnavailableError if one is missing.

    `devices` is for variables on other processes; `fence` is that of the task that writes.
    """
    directory, promised = job.checkpoint_dir, job.environment.checkpoint_step
    if directory is None:
        if promised is not None:
            raise _missing(promised, "it has no checkpoint directory (TFTRAINING_CHECKPOINT_DIR)")
        _LOG.warning("no checkpoint directory: the trained model is lost when this process ends")
        return Resumed()
    keep = job.arguments.keep_checkpoints
    if fence is not None:
        remove_unfinished(directory)
    saved = Checkpoints(directory, keep=keep, devices=devices, model=model, step=step)
    chosen_rate = _rate(model)
    path = saved.restore()
    if promised is not None and path is None:
        raise _missing(promised, f"there is none in {directory}")
    is_own, origin = True, fence.predecessor if fence else None
    if path is None and job.resume_from is not None:
        storage.require_usable(job.resume_from, "spec.checkpoint.resumeFrom (--resume-from)")
        path = saved.restore_from(job.resume_from)
        is_own, origin = False, "another training"
    _warn_of_rate(chosen_rate, _rate(model))
    restored = int(step.numpy())
    if promised is not None and restored < promised:
        _LOG.warning(
            "this job has saved step %d, but the newest readable checkpoint in %s is of step %d: "
            "repeating the steps in between",
            promised,
            directory,
            restored,
        )
    position = saved.position
    if path is None:
        origin = None
    elif origin is not None:
        _LOG.warning("resumed from step %d of %s: %s", restored, origin, path)
    if path is not None and position is None:
        _LOG.warning(
            "%s does not say what it was trained on (an older trainer wrote it): the data of its "
            "last epoch is read from the beginning",
            path,
        )
    return Resumed(
        checkpoints=saved,
        path=path,
        step=restored,
        is_own=is_own,
        origin=origin,
        last=_last(job, directory, fence),
        unfinished=epoch_end.unfinished(directory, restored) if path and is_own else None,
        saved_position=position,
    )


def _rate(model: tf_types.Model) -> float | None:
    rate = learning_rate.variable(model)
    return None if rate is None else float(rate.numpy())


def _warn_of_rate(chosen: float | None, restored: float | None) -> None:
    if chosen is not None and restored is not None and chosen != restored:
        _LOG.warning(
            "the learning rate is %.6g, as in the checkpoint, and not %.6g, as model() sets it. To "
            "change it, set model.optimizer.learning_rate in on_train_begin of a callback",
            restored,
            chosen,
        )


def _last(job: Job, directory: str, fence: Fence | None) -> Marker | None:
    # Without a job's uid, any earlier training on this computer may have left the marker.
    uid = job.environment.job_uid
    last = marker.read(directory) if uid else None
    if last is None or last.job_uid != uid:
        return None
    if last.epochs is None or job.arguments.epochs <= last.epochs:
        return last
    # More are asked for since, of a job that was suspended: it is not complete any more.
    if fence is not None:
        marker.remove(directory)
    return None


def _missing(promised: int, found: str) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(
        f"this job has saved a checkpoint of step {promised}, but {found}. Training is not "
        "restarted from the beginning silently: restore the checkpoint volume, or delete the job "
        "and create it again to train from the beginning."
    )
