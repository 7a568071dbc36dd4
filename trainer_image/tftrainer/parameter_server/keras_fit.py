"""Mode fit: asynchronous steps with Keras model.fit, for models and callbacks that rely on it.

fit schedules, counts epochs and calls the callbacks. An additional callback limits how much fit
schedules ahead, sets the number of steps per scheduled function, reports progress and saves.
"""

import logging
import math
import time
from collections.abc import Mapping
from threading import Thread

import tensorflow as tf

from tftrainer import callbacks, model, tf_types
from tftrainer.arguments import FitInput
from tftrainer.batches import examples_in
from tftrainer.errors import TerminatedError
from tftrainer.pacing import Pace
from tftrainer.parameter_server.coordinator_internals import drop_queued, queue_depth
from tftrainer.parameter_server.scheduled_loop import LONGEST_STOP
from tftrainer.parameter_server.session import Session

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.01
# The step is read this often: each look costs a ps 2 ms.
_LOOK_SECONDS = 0.2
# With 1, Keras would make a function of one step, which no later number changes.
_SEVERAL = 2


def training(session: Session) -> "FitTraining":
    """Make the training; `run` it."""
    return FitTraining(session)


class FitTraining:
    """One call of model.fit."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reporter = _Reporter(session)
        self._callbacks = tf.keras.callbacks.CallbackList(
            [self._reporter, *callbacks.wanted_by_fit(session.task, session.context)],
            add_history=True,
            model=session.model,
            verbose=0,
            epochs=session.job.arguments.epochs,
            steps=session.epoch,
        )
        # It would warn that waiting before a batch, which is what the reporter is for, is slow.
        self._callbacks._check_timing = False  # noqa: SLF001 -- no other way
        # Not by setattr, which Keras takes for the adding of a part.
        object.__setattr__(session.model, "train_step", _counted(session))
        Thread(target=self._drop_when_stopped, name="stop", daemon=True).start()

    def run(self) -> None:
        """Make all steps."""
        session, total = self._session, self._session.total
        done = int(session.step.numpy())
        if done < total:
            try:
                self._fit(done)
            except (_Stopped, tf.errors.CancelledError):
                if not session.run.stop.is_set():
                    raise
            done = self._reporter.wait_until_idle()
        recorder, metrics = session.recorder, self._reporter.metrics
        if session.run.stop.is_set() and done < total:
            recorder.save(done)
            raise TerminatedError(f"terminated by SIGTERM at step {done} of {total}.")
        recorder.note_work(session.work.read())
        recorder.finish(min(done, total), metrics)

    def _drop_when_stopped(self) -> None:
        # fit waits for all that is scheduled wherever it likes, for workers that have ended too.
        stop = self._session.run.stop
        stop.wait()
        while True:
            drop_queued(self._session.coordinator)
            time.sleep(_POLL_SECONDS)

    def _fit(self, done: int) -> None:
        session, epochs = self._session, self._session.job.arguments.epochs
        # fit begins in the middle of an epoch only where a callback of Keras's own has saved; this
        # is what it asks that callback's state. There is no public way.
        begin = _Begin(*divmod(done, session.epoch))
        object.__setattr__(session.model, "_training_state", begin)
        session.model.steps_per_execution = _SEVERAL
        session.model.fit(
            self._input(),
            epochs=epochs,
            steps_per_epoch=session.epoch,
            callbacks=self._callbacks,
            verbose=0,
        )

    def _input(self) -> tf_types.Dataset:
        session = self._session
        if session.job.arguments.fit_input is FitInput.DATASET:
            # With the seed of the model's weights, all workers would shuffle alike.
            tf.random.set_seed(None)
            return session.dataset()
        function = session.dataset_function()
        return tf.keras.utils.experimental.DatasetCreator(lambda _: function())


class _Stopped(Exception):  # noqa: N818 -- no error
    """Ends fit after SIGTERM, which otherwise would wait for all that is scheduled."""


class _Begin:
    """Tells fit where to begin, in the place of the state of BackupAndRestore."""

    def __init__(self, epoch: int, step: int) -> None:
        self._begin = epoch, step

    def maybe_load_initial_counters_from_ckpt(self, *_: object, **__: object) -> tuple[int, int]:
        return self._begin


class _Reporter(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Looks after the steps while fit makes them."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        # Keras takes batch hooks under ParameterServer only of callbacks that say this, which is
        # that they do without the values of the batch.
        self._supports_tf_logs = True
        arguments = session.job.arguments
        self.metrics: dict[str, float] = {}
        self._session = session
        self._recorder = session.recorder
        self._look_due = 0.0
        self._pace = Pace(seconds=arguments.closure_seconds, fixed=arguments.steps_per_closure)

    def on_train_begin(self, *_: object) -> None:
        self._set_steps()

    def on_train_batch_begin(self, *_: object) -> None:
        """Wait until the workers have little left to do; save if it is time to."""
        coordinator = self._session.coordinator
        while queue_depth(coordinator) >= len(self._session.workers) and not self._stopped:
            self._look_now_and_then()
            self._session.run.stop.wait(_POLL_SECONDS)
        self._look_now_and_then()
        if self._stopped:
            raise _Stopped
        if self._recorder.checkpoint_due:
            self._recorder.save(self.wait_until_idle())

    def on_train_batch_end(self, *_: object) -> None:
        speed = self._recorder.speed
        self._pace.follow(speed and speed / len(self._session.workers))
        self._set_steps()

    def on_epoch_end(self, *_: object) -> None:
        step = self._look()
        self.metrics = model.metrics(self._session.model)
        self._recorder.publish(step, self.metrics)
        if self._recorder.checkpoint_due:
            self._recorder.save(step)

    def wait_until_idle(self) -> int:
        """Wait until all that is scheduled is done, or one worker hangs; return the step."""
        began = time.monotonic()
        while not self._session.coordinator.done():
            self._look_now_and_then()
            if time.monotonic() - began > (LONGEST_STOP if self._stopped else self._patience):
                _LOG.info("a worker is still busy or hangs; continuing without it")
                break
            time.sleep(_POLL_SECONDS)
        return self._look()

    def _look_now_and_then(self) -> None:
        if time.monotonic() >= self._look_due:
            self._look()

    def _look(self) -> int:
        session = self._session
        # Raises what a scheduled function raised.
        session.coordinator.done()
        step = int(session.step.numpy())
        self._look_due = time.monotonic() + _LOOK_SECONDS
        session.note_progress(step)
        if self._recorder.wants_metrics and step:
            self._recorder.publish(step, model.metrics(session.model))
        return step

    def _set_steps(self) -> None:
        # Here, and not before a batch: Keras has then counted the steps that it schedules.
        self._session.model.steps_per_execution = self._pace.steps

    @property
    def _stopped(self) -> bool:
        return self._session.run.stop.is_set()

    @property
    def _patience(self) -> float:
        """How long the functions scheduled can take (seconds), if they are half as fast."""
        speed = self._recorder.speed
        if not speed:
            return math.inf
        functions = 2 * len(self._session.workers) + 1
        return 5.0 + 2 * functions * self._pace.steps / speed


def _counted(session: Session) -> tf_types.Function:
    """Return the step that counts itself, for fit's own counter is none that is saved."""
    make_step, step, work = session.make_step, session.step, session.work

    def counted(batch: tf_types.Tensor) -> Mapping[str, tf_types.Tensor]:
        metrics = make_step(batch)
        step.assign_add(1)
        # fit takes the batch itself, so that nobody sees how long it waits for it.
        nothing = tf.constant(0.0, tf.float64)
        work.add(examples=examples_in(batch), waiting=nothing, busy=nothing)
        return metrics  # type: ignore[no-any-return]

    return counted
