"""Calls the user's Keras callbacks where training and epochs begin and end; used by epochs.

Keras fit calls them itself; every other loop does so through this module. Per-batch hooks are not
called: a step is one of many in a function that runs on another process.

Under MultiWorkerMirrored every member calls them, as with Keras fit: what they change, such as the
learning rate, has to change everywhere, and all members see the same logs. Members may have unlike
callbacks, such as those of the chief that write files: they wait for each other after each hook.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError
from tftrainer.runtime.progress import Activity
from tftrainer.runtime.supervisor import Run
from tftrainer.user import learning_rate
from tftrainer.user.task import UserTask

_LOG = logging.getLogger(__name__)


class Callbacks:
    """Calls the hooks of one training; the list of callbacks may be empty."""

    def __init__(
        self,
        callbacks: Sequence[tf_types.Callback],
        model: tf_types.Model,
        *,
        run: Run,
        epochs: int,
        steps_per_epoch: int,
        of_any: Callable[[bool], bool],
    ) -> None:
        """`of_any` tells whether something is so in any member, who call it together."""
        self._run = run
        self._of_any = of_any
        self.all = tuple(callbacks)
        """The user's callbacks; there may be none."""
        self.exist = of_any(bool(self.all))
        """Whether any member has some."""
        self._model = model
        # fit sets it; without fit, a callback that reads it would find nothing.
        model.stop_training = False
        self._list = tf.keras.callbacks.CallbackList(
            list(callbacks), model=model, epochs=epochs, steps=steps_per_epoch, verbose=0
        )

    def begin_training(self) -> None:
        """Before the first step of this process, which need not be the first of the job."""
        with self._running():
            self._list.on_train_begin()

    def begin_epoch(self, epoch: int, *, again: bool) -> None:
        """Before the first step of an epoch; epochs count from 0, as with fit.

        `again` says that the process before made some of its steps: the learning rate stays.
        """
        with self._running(), learning_rate.kept(self._model, wanted=again):
            self._list.on_epoch_begin(epoch)

    def end_epoch(self, epoch: int, logs: Mapping[str, float]) -> None:
        """After the last step of an epoch; the logs are the metrics of that epoch."""
        with self._running():
            self._list.on_epoch_end(epoch, dict(logs))

    def end_training(self, logs: Mapping[str, float]) -> None:
        """After the last step, or where a callback ended training."""
        # No step is expected any more, for which members would wait for each other.
        with self._run.busy(Activity.CALLBACKS) if self.all else nullcontext():
            self._list.on_train_end(dict(logs))

    @contextmanager
    def _running(self) -> Iterator[None]:
        if not self.exist:
            yield
            return
        with self._run.busy(Activity.CALLBACKS):
            yield
            # Here, where no step is expected: a member whose callbacks take less time would wait
            # for the others in the next one.
            self._of_any(False)  # noqa: FBT003 -- only to wait

    @property
    def stop_asked(self) -> bool:
        """Whether one of them wants training to end here."""
        return bool(self._model.stop_training)


def _wanted(task: UserTask, context: Context) -> list[tf_types.Callback]:
    """Return what callbacks() of the task gives, without what the trainer does itself."""
    made = [each for each in task.callbacks(context) if not _is_replaced(each)]
    for each in made:
        if isinstance(each, tf.keras.callbacks.BackupAndRestore):
            raise BadConfigurationError(
                f"callbacks(context) of {task.name} has {_name(each)}: the trainer already saves "
                "and resumes, and the two would overwrite each other. Remove it."
            )
    return made


def wanted_by_loop(task: UserTask, context: Context) -> list[tf_types.Callback]:
    """Return the task's callbacks for loops of the trainer's own, which call no per-batch hooks.

    Call it outside the strategy's scope. Raises BadConfigurationError for what cannot work here.
    """
    made = _wanted(task, context)
    for each in filter(_has_batch_hooks, made):
        _LOG.warning(
            "callback %s has per-batch hooks, which are not called in this mode; hooks for "
            "epochs and training are",
            _name(each),
        )
    return made


def wanted_by_fit(task: UserTask, context: Context) -> list[tf_types.Callback]:
    """Return the task's callbacks for Keras fit under ParameterServer.

    Keras takes batch hooks there only of callbacks that can do without the values of the batch.
    """
    made = _wanted(task, context)
    for each in filter(_has_batch_hooks, made):
        if not getattr(each, "_supports_tf_logs", False):
            raise BadConfigurationError(
                f"callbacks(context) of {task.name} has {_name(each)}, which has per-batch hooks: "
                "Keras fit cannot call them under ParameterServer. Use epoch hooks."
            )
    return made


def _is_replaced(callback: tf_types.Callback) -> bool:
    """Whether the trainer does what this callback of Keras's does batch by batch."""
    if type(callback) is not tf.keras.callbacks.TerminateOnNaN:
        return False
    _LOG.info("callback TerminateOnNaN is not called: --on-nan sets what follows a loss of NaN")
    return True


def _has_batch_hooks(callback: tf_types.Callback) -> bool:
    # Keras has no public word for it: some of its own callbacks need their hooks now and then.
    return bool(callback._implements_train_batch_hooks())  # noqa: SLF001


def _name(callback: tf_types.Callback) -> str:
    return type(callback).__name__
