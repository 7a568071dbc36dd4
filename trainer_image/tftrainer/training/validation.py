"""Evaluates the model at the ends of epochs, so that callbacks see val_loss; called by recorder.

The chief does it (under MultiWorkerMirrored, every member): it saves a checkpoint, restores that
into a copy of the model in its own memory, and evaluates the copy there. So the same code serves
every strategy and mode, the result is of exactly the weights of that epoch, and what was evaluated
is saved. Workers of a ParameterServer job wait meanwhile.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.arguments import NO_VALIDATION, OF_VALIDATION
from tftrainer.config.job import Job
from tftrainer.context import Context
from tftrainer.runtime.progress import Activity, SavedCheckpoint
from tftrainer.runtime.supervisor import Run
from tftrainer.saving import checkpoints
from tftrainer.user import evaluation, model
from tftrainer.user.evaluation import Evaluation
from tftrainer.user.task import UserTask

_LOG = logging.getLogger(__name__)
_SPLIT = "evaluation"

Share = Callable[[list[float]], list[float]]
"""Returns the chief's values; all members call it together."""


class Validation:
    """A copy of the model, and the data to evaluate it on."""

    def __init__(
        self,
        task: UserTask,
        context: Context,
        split: str,
        *,
        run: Run,
        share: Share | None = None,
    ) -> None:
        """Build the copy; call it outside the strategy's scope.

        SIGTERM ends an evaluation; with `share` it does not, since all members have to agree.
        Raises BadConfigurationError for data or a test_step that cannot work.
        """
        # Each member evaluates by itself: a dataset that shards itself has to give it all.
        context = replace(context, input_pipelines=1, input_pipeline=0)
        dataset = evaluation.dataset(task, split, context)
        copy = model.build(task, context, dataset)
        self._checkpoint = tf.train.Checkpoint(model=copy)
        self._evaluation = Evaluation(task, copy, dataset)
        self._run = run
        self._share = share
        self._callbacks = [] if share else [_Stops(run.stop)]

    def metrics(self, saved: SavedCheckpoint) -> dict[str, float] | None:
        """Return the metrics of a checkpoint, as val_...; None if SIGTERM came meanwhile."""
        began = time.monotonic()
        with self._run.busy(Activity.VALIDATION):
            with checkpoints.needed(saved.path):
                checkpoints.read(self._checkpoint, saved.path).expect_partial()
            try:
                found = self._evaluation.metrics(self._callbacks)
            except _Stopped:
                return None
            names = sorted(found)
            values = [found[name] for name in names]
            # What callbacks decide by has to be the same to the last bit.
            shared = self._share(values) if self._share and values else values
        results = {f"{OF_VALIDATION}{name}": v for name, v in zip(names, shared, strict=True)}
        shown = ", ".join(f"{name} {value:.4g}" for name, value in results.items())
        seconds = time.monotonic() - began
        _LOG.info("validated step %d in %.1f s: %s", saved.step, seconds, shown)
        return results


def wanted(
    job: Job,
    task: UserTask,
    context: Context,
    callbacks: Sequence[tf_types.Callback],
    *,
    run: Run,
    share: Share | None,
    of_any: Callable[[bool], bool],
) -> Validation | None:
    """Make the validation if --validation, --keep-best or one of the callbacks wants it.

    `of_any` tells whether something is so in any member, who call it together.
    """
    split, goal = job.arguments.validation, job.arguments.keep_best
    monitoring = [each for each in callbacks if _monitors_validation(each)]
    if split == NO_VALIDATION or job.checkpoint_dir is None:
        for each in monitoring:
            _LOG.warning(
                "callback %s monitors %s, which is not reported %s. Use a metric of training: "
                "monitor=%r",
                type(each).__name__,
                each.monitor,
                "with --validation=none" if split else "without a checkpoint directory",
                each.monitor.removeprefix(OF_VALIDATION),
            )
        return None
    asked = split is not None or bool(monitoring) or bool(goal and goal.needs_validation)
    if not of_any(asked):
        return None
    return Validation(task, context, split or _SPLIT, run=run, share=share)


def _monitors_validation(callback: tf_types.Callback) -> bool:
    monitor = getattr(callback, "monitor", None)
    return isinstance(monitor, str) and monitor.startswith(OF_VALIDATION)


class _Stopped(Exception):  # noqa: N818 -- no error
    """SIGTERM came."""


class _Stops(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Ends an evaluation after SIGTERM, which leaves little time."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def on_test_batch_end(self, *_: object) -> None:
        if self._stop.is_set():
            raise _Stopped
