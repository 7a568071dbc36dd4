"""The evaluator: evaluates each new checkpoint on held-out data, until the last one.

Called by __main__. It never connects to the cluster. It shares only the checkpoint directory with
the chief, which may delete a checkpoint while it is being read; then the next one is evaluated.
"""

import logging
import time
from dataclasses import dataclass
from typing import Self

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.job import Job
from tftrainer.errors import BadConfigurationError, TerminatedError
from tftrainer.runtime.progress import Phase, describe
from tftrainer.runtime.supervisor import Run
from tftrainer.saving import checkpoints, marker, ownership
from tftrainer.training import tensorboard
from tftrainer.user import evaluation, model
from tftrainer.user.evaluation import Evaluation
from tftrainer.user.task import load

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
_AGAIN_SECONDS = 5.0
"""How long a checkpoint that cannot be read is left alone; each time twice as long."""

_Found = tuple[str, int]
"""Path of a checkpoint, and when it was written (ns)."""


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """What checkpoints are restored into, and what then evaluates it."""

    step: tf_types.Variable
    checkpoint: tf_types.Checkpoint
    evaluation: Evaluation

    @classmethod
    def of(cls, built: tf_types.Model, evaluation: Evaluation) -> Self:
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        return cls(step, tf.train.Checkpoint(model=built, step=step), evaluation)

    def of_checkpoint(self, path: str, run: Run) -> None:
        """Restore and evaluate; raises UnreadableError for one that went away or is not whole."""
        began = time.monotonic()
        checkpoints.read(self.checkpoint, path).expect_partial()
        metrics = self.evaluation.metrics()
        step = int(self.step.numpy())
        snapshot = run.progress.update(
            step=step,
            metrics=metrics,
            last_checkpoint=checkpoints.found_or_none(path, step),
        )
        _LOG.info("evaluated %s in %.1f s", describe(snapshot), time.monotonic() - began)


class _Unreadable:
    """The checkpoint that could not be read last: it may still come, or be damaged for good."""

    def __init__(self) -> None:
        self._found: _Found | None = None
        self._again_at = 0.0
        self._pause = _AGAIN_SECONDS

    def note(self, found: _Found, error: checkpoints.UnreadableError) -> None:
        """Leave it alone for a while; warn of it the first time."""
        if found != self._found:
            self._found, self._pause = found, _AGAIN_SECONDS
            _LOG.warning("skipping checkpoint %s, which cannot be read: %s", found[0], error)
        self._again_at = time.monotonic() + self._pause
        self._pause *= 2

    def is_left_alone(self, found: _Found) -> bool:
        """Tell whether it is not to be read again yet."""
        return found == self._found and time.monotonic() < self._again_at


def evaluate(job: Job, run: Run) -> None:
    """Evaluate checkpoints up to the last one of this job, which the marker file announces."""
    require_directory(job)
    task = load(job.arguments.task)
    context = job.context()
    dataset = evaluation.dataset(task, "evaluation", context)
    built = model.build(task, context, dataset)
    evaluator = _Evaluator.of(built, Evaluation(task, built, dataset))
    run.progress.update(phase=Phase.EVALUATING)
    directory = _used_by_chief(job, run)
    logs = tensorboard.Logs(directory)
    run.before_exit.append(logs.close)
    _LOG.info("watching %s for checkpoints", directory)
    seen: _Found | None = None
    unreadable = _Unreadable()
    while True:
        # The marker first: a checkpoint found after it is the last one for certain.
        is_last = marker.is_complete(directory, job.environment.job_uid)
        newest = _newest(directory)
        if newest is not None and newest != seen:
            if not unreadable.is_left_alone(newest):
                try:
                    evaluator.of_checkpoint(newest[0], run)
                except checkpoints.UnreadableError as error:
                    unreadable.note(newest, error)
                else:
                    seen = newest
                    snapshot = run.progress.snapshot
                    logs.write(tensorboard.EVALUATOR, snapshot.step, snapshot.metrics)
        elif is_last and newest is not None:
            run.progress.update(phase=Phase.DONE)
            _LOG.info("evaluation is complete: %s", describe(run.progress.snapshot))
            return
        _wait(run)


def require_directory(job: Job) -> str:
    """Return the checkpoint directory; raises BadConfigurationError if the job has none."""
    if job.checkpoint_dir is None:
        raise BadConfigurationError(
            "the evaluator has no checkpoint directory: set spec.checkpoint in the job "
            "(TFTRAINING_CHECKPOINT_DIR), or remove the evaluator."
        )
    return job.checkpoint_dir


def _used_by_chief(job: Job, run: Run) -> str:
    """Wait until this job's chief uses the directory: until then another job may be in it."""
    logged = False
    while not ownership.is_in_use(found := ownership.with_own_directory(job)):
        if not logged:
            _LOG.info("waiting for the chief to use %s", found.checkpoint_dir)
            logged = True
        _wait(run)
    return require_directory(found)


def _wait(run: Run) -> None:
    if run.stop.wait(_POLL_SECONDS):
        raise TerminatedError("terminated by SIGTERM before the last checkpoint was evaluated.")


def _newest(directory: str) -> _Found | None:
    """Find the newest, and when it was written: a restarted chief may write a name again."""
    try:
        path = tf.train.latest_checkpoint(directory)
        return (path, tf.io.gfile.stat(f"{path}.index").mtime_nsec) if path else None
    except (tf.errors.OpError, ValueError):
        # Also where what lists the checkpoints is garbled, until the chief writes it again.
        return None
