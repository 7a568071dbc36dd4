"""The evaluator: evaluates each new checkpoint on held-out data, until the last one.

Called by __main__. It never connects to the cluster. It shares only the checkpoint directory with
the chief, which may delete a checkpoint while it is being read; then the next one is evaluated.
"""

import logging
import time
from dataclasses import dataclass
from typing import Self

import tensorflow as tf

from tftrainer import checkpoints, marker, model, tensorboard, tf_types
from tftrainer.errors import BadConfigurationError, TerminatedError
from tftrainer.job import Job
from tftrainer.progress import Phase, describe
from tftrainer.supervisor import Run
from tftrainer.task import load

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The model, what is restored into it, and what it is evaluated on."""

    model: tf_types.Model
    step: tf_types.Variable
    checkpoint: tf_types.Checkpoint
    dataset: tf_types.Dataset

    @classmethod
    def of(cls, built: tf_types.Model, dataset: tf_types.Dataset) -> Self:
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        return cls(built, step, tf.train.Checkpoint(model=built, step=step), dataset)

    def of_checkpoint(self, path: str, run: Run) -> bool:
        """Restore and evaluate; False if the checkpoint went away or is not whole."""
        began = time.monotonic()
        wrong = checkpoints.defect(path)
        if wrong is None:
            try:
                self.checkpoint.read(path).expect_partial()
            except tf.errors.OpError as error:
                wrong = error.message
        if wrong is not None:
            _LOG.warning("skipping checkpoint %s, which cannot be read: %s", path, wrong)
            return False
        values = self.model.evaluate(self.dataset, verbose=0, return_dict=True)
        step = int(self.step.numpy())
        snapshot = run.progress.update(
            step=step,
            metrics={name: float(value) for name, value in values.items()},
            last_checkpoint=checkpoints.found_or_none(path, step),
        )
        _LOG.info("evaluated %s in %.1f s", describe(snapshot), time.monotonic() - began)
        return True


def evaluate(job: Job, run: Run) -> None:
    """Evaluate checkpoints up to the last one of this job, which the marker file announces."""
    directory = require_directory(job)
    task = load(job.arguments.task)
    context = job.context()
    dataset = task.dataset("evaluation", context)
    if int(dataset.cardinality()) < 0 and dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise BadConfigurationError(
            f'dataset("evaluation", context) of {task.name} is infinite; remove repeat().'
        )
    evaluation = _Evaluation.of(model.build(task, context, dataset), dataset)
    logs = tensorboard.Logs(directory)
    run.progress.update(phase=Phase.EVALUATING)
    _LOG.info("watching %s for checkpoints", directory)
    seen: tuple[str, int] | None = None
    while True:
        # The marker first: a checkpoint found after it is the last one for certain.
        is_last = marker.read(directory, job.environment.job_uid) is not None
        newest = _newest(directory)
        if newest is not None and newest != seen:
            if evaluation.of_checkpoint(newest[0], run):
                seen = newest
                snapshot = run.progress.snapshot
                logs.write(tensorboard.EVALUATOR, snapshot.step, snapshot.metrics)
        elif is_last and newest is not None:
            run.progress.update(phase=Phase.DONE)
            _LOG.info("evaluation is complete: %s", describe(run.progress.snapshot))
            return
        if run.stop.wait(_POLL_SECONDS):
            raise TerminatedError("terminated by SIGTERM before the last checkpoint was evaluated.")


def require_directory(job: Job) -> str:
    """Return the checkpoint directory; raises BadConfigurationError if the job has none."""
    if job.checkpoint_dir is None:
        raise BadConfigurationError(
            "the evaluator has no checkpoint directory: set spec.checkpoint in the job "
            "(TFTRAINING_CHECKPOINT_DIR), or remove the evaluator."
        )
    return job.checkpoint_dir


def _newest(directory: str) -> tuple[str, int] | None:
    """Find the newest, and when it was written: a restarted chief may write a name again."""
    try:
        path = tf.train.latest_checkpoint(directory)
        return (path, tf.io.gfile.stat(f"{path}.index").mtime_nsec) if path else None
    except tf.errors.OpError:
        return None
