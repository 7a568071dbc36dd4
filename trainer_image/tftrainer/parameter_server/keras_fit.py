"""Mode fit: asynchronous steps with Keras model.fit, for models and callbacks that rely on it.

fit counts epochs and steps and calls the callbacks. What it calls for some steps is a function that
schedules them as mode asynchronous does, so its input is that of all modes. An additional callback
limits how much is scheduled ahead, sets the number of steps per function, reports progress and
saves.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Thread

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.parameter_server import asynchronous
from tftrainer.parameter_server.chief import Chief
from tftrainer.parameter_server.coordinator_internals import drop_queued, join_by, queue_depth
from tftrainer.parameter_server.local_copies import metrics_of, single
from tftrainer.parameter_server.scheduled_loop import LONGEST_STOP, longest_call
from tftrainer.runtime.progress import Activity
from tftrainer.training.pacing import Pace
from tftrainer.user import callbacks, learning_rate, model
from tftrainer.user.overriding import override

_POLL_SECONDS = 0.01
# The step is read this often: each look costs a ps 2 ms.
_LOOK_SECONDS = 0.2
# With 1, Keras would count by ones for ever.
_SEVERAL = 2
_EndOfEpoch = Callable[[int, Mapping[str, float]], Mapping[str, float]]


def training(chief: Chief) -> "FitTraining":
    """Make the training; `run` it."""
    return FitTraining(chief)


class FitTraining:
    """One call of model.fit."""

    def __init__(self, chief: Chief) -> None:
        session = chief.session
        self._chief = chief
        self._session = session
        self._epoch = session.length.of_epoch
        done = session.is_complete
        wanted = [] if done else callbacks.wanted_by_fit(session.task, session.context)
        self._end_of_epoch = chief.end_of_epoch(wanted)
        self._reporter = _Reporter(
            chief,
            before_end=self._make_the_rest,
            end_of_epoch=self._end_of_epoch,
            is_last=not wanted,
        )
        join_by(chief.coordinator, self._reporter.wait_until_idle)
        self._counts = session.epoch_counts
        self._counts.ended = max(chief.dealer.reached // self._epoch, self._counts.ended)
        # All that is left of an epoch may be before what others have made. Fit has to make a step
        # of it all the same: it ends no epoch without one.
        last_of_epoch = (self._counts.ended + 1) * self._epoch - 1
        self._counted = min(chief.dealer.opened, last_of_epoch)
        """The number of the next batch, as fit counts them."""
        self._wanted = wanted
        stack = ExitStack()
        epoch, into_epoch = divmod(self._counted, self._epoch)
        again = [_Again(epoch, stack)] if into_epoch or epoch < self._counts.begun else []
        again += [_Counted(epoch, session.model)] if into_epoch else []
        self._callbacks = tf.keras.callbacks.CallbackList(
            # The reporter first: what it saves does not depend on what the others do.
            [
                self._reporter,
                _Bracket(lambda: stack.enter_context(session.run.busy(Activity.CALLBACKS))),
                *again,
                *wanted,
                _Bracket(stack.close),
                _Last(self._finish_epoch, self._reporter.epoch_ended),
            ],
            add_history=True,
            model=session.model,
            verbose=0,
            epochs=session.job.arguments.epochs,
            steps=self._epoch,
        )
        # It would warn that waiting before a batch, which is what the reporter is for, is slow.
        self._callbacks._check_timing = False  # noqa: SLF001 -- no other way
        self._call = chief.traced(asynchronous.call(chief))
        self._iterators = chief.input.iterators()
        self._metrics = list(session.model.get_metrics_result())
        # What fit asks for the function that it calls for some steps.
        override(session.model, "make_train_function", lambda: self._schedule)
        Thread(target=self._drop_when_stopped, name="stop", daemon=True).start()

    def run(self) -> None:
        """Make all steps."""
        chief, session = self._chief, self._session
        if not chief.dealer.is_complete:
            try:
                self._fit(self._counted)
            except _Ended:
                self._callbacks.on_train_end()
            except (_Stopped, tf.errors.CancelledError):
                if not session.run.stop.is_set():
                    raise
                # Also if all steps are made by now: the callbacks were not told.
                self._reporter.wait_until_idle()
                chief.terminate()
            self._reporter.wait_until_idle()
        else:
            # A restart after the last step: they may have failed at the end.
            with suppress(_Ended):
                self._callbacks.on_train_begin()
            self._callbacks.on_train_end()
        chief.end_if_stopped()
        step = int(session.step.numpy())
        session.recorder.note_work(chief.work.read())
        chief.finish(step, self._reporter.metrics, save_again=bool(self._wanted))

    def _make_the_rest(self, until: int) -> None:
        """Make what is left of the batches before a number, after fit's calls for them."""
        session, dealer = self._session, self._chief.dealer
        while not (session.run.stop.is_set() or session.model.stop_training):
            for _ in self._chief.workers:
                self._schedule_one(until)
            self._reporter.wait_until_idle()
            if dealer.reached >= until:
                if until < session.total or dealer.is_complete:
                    return
                dealer.take_back()

    def _finish_epoch(self) -> None:
        """Finish the end of the epoch before, if the process before did not.

        Raises _Ended if a callback wants training to end there: fit would make more steps first.
        """
        session, metrics = self._session, self._session.unfinished
        number, into_epoch = divmod(self._chief.dealer.reached, self._epoch)
        if self._end_of_epoch is None or metrics is None or not number or into_epoch:
            return
        self._counts.ended = number - 1
        logs = dict(_outside_scope(self._end_of_epoch, int(session.step.numpy()), metrics))
        with session.run.busy(Activity.CALLBACKS):
            # What it sets for this process, the end of the epoch may read.
            with learning_rate.kept(session.model, wanted=True):
                for each in self._wanted:
                    each.on_epoch_begin(number - 1, {})
            for each in self._wanted:
                each.on_epoch_end(number - 1, logs)
        self._counts.ended = number
        if session.model.stop_training:
            raise _Ended

    def _drop_when_stopped(self) -> None:
        # fit waits for all that is scheduled wherever it likes, for workers that have ended too.
        stop = self._session.run.stop
        stop.wait()
        while True:
            drop_queued(self._chief.coordinator)
            time.sleep(_POLL_SECONDS)

    def _fit(self, done: int) -> None:
        session, epochs = self._session, self._session.job.arguments.epochs
        # fit begins in the middle of an epoch only where a callback of Keras's own has saved; this
        # is what it asks that callback's state. There is no public way.
        begin = _Begin(*divmod(done, self._epoch))
        override(session.model, "_training_state", begin)
        session.model.steps_per_execution = _SEVERAL
        # Of this, nothing is read: fit has to be given a dataset, to hand on to _schedule.
        unread = tf.keras.utils.experimental.DatasetCreator(
            lambda _: tf.data.Dataset.from_tensors(0).repeat()
        )
        session.model.fit(
            unread,
            epochs=epochs,
            steps_per_epoch=self._epoch,
            callbacks=self._callbacks,
            verbose=0,
        )

    def _schedule(self, _: tf_types.Iterator) -> dict[str, float]:
        """Schedule as many steps as fit counts, in a training that it is told to make."""
        model = self._session.model
        steps = int(model._steps_per_execution.numpy())  # noqa: SLF001 -- no other way
        epoch_end = (self._counted // self._epoch + 1) * self._epoch
        self._counted += steps
        for _ in range(0, steps, self._reporter.steps_a_call):
            self._schedule_one(epoch_end)
        # At the end of the epoch, fit reads those of these names.
        return dict.fromkeys(self._metrics, 0.0)

    def _schedule_one(self, until: int) -> None:
        most = self._reporter.steps_a_call
        self._chief.schedule(self._call, self._iterators, most=most, until=until)


class _Bracket(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Stands before and after the user's callbacks, whose hooks may take long."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self._call = call

    def on_train_begin(self, *_: object) -> None:
        self._call()

    def on_epoch_begin(self, *_: object) -> None:
        self._call()

    def on_epoch_end(self, *_: object) -> None:
        self._call()

    def on_train_end(self, *_: object) -> None:
        self._call()


class _Again(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps the learning rate of an epoch of which the process before made some steps."""

    def __init__(self, epoch: int, stack: ExitStack) -> None:
        super().__init__()
        self._epoch = epoch
        self._stack = stack

    def on_epoch_begin(self, epoch: int, *_: object) -> None:
        if epoch == self._epoch:
            self._stack.enter_context(learning_rate.kept(self.model, wanted=True))


class _Counted(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Puts back what metrics have counted of an epoch that is resumed: fit begins each with 0."""

    def __init__(self, epoch: int, model: tf_types.Model) -> None:
        super().__init__()
        self._epoch = epoch
        self._counted = [(each, each.numpy()) for each in single(metrics_of(model))]

    def on_epoch_begin(self, epoch: int, *_: object) -> None:
        if epoch == self._epoch:
            for variable, value in self._counted:
                variable.assign(value)


class _Last(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Stands after all others: finishes the epoch before, and saves what they did in this."""

    def __init__(self, begin: Callable[[], None], ended: Callable[[int], None]) -> None:
        super().__init__()
        self._begin = begin
        self._ended = ended

    def on_train_begin(self, *_: object) -> None:
        self._begin()

    def on_epoch_end(self, epoch: int, *_: object) -> None:
        self._ended(epoch)


def _outside_scope(
    end_of_epoch: _EndOfEpoch, step: int, metrics: Mapping[str, float]
) -> Mapping[str, float]:
    """Call what validates, where fit calls callbacks.

    It does so in the strategy's scope, where no other model can be evaluated; scopes are of one
    thread.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(end_of_epoch, step, metrics).result()


class _Ended(Exception):  # noqa: N818 -- no error
    """Ends fit before its first step."""


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

    def __init__(
        self,
        chief: Chief,
        *,
        before_end: Callable[[int], None],
        end_of_epoch: _EndOfEpoch | None,
        is_last: bool,
    ) -> None:
        """`is_last` says that no callbacks of the user's come after it."""
        super().__init__()
        self._before_end = before_end
        self._end_of_epoch = end_of_epoch
        self._is_last = is_last
        # Keras takes batch hooks under ParameterServer only of callbacks that say this, which is
        # that they do without the values of the batch.
        self._supports_tf_logs = True
        session, arguments = chief.session, chief.session.job.arguments
        self.metrics: dict[str, float] = {}
        self._chief = chief
        self._session = session
        self._recorder = session.recorder
        self._epoch = session.length.of_epoch
        self._look_due = 0.0
        self._step = self._reset_at = session.first_step
        self._pace = Pace(seconds=arguments.closure_seconds, fixed=arguments.steps_per_closure)

    def on_train_begin(self, *_: object) -> None:
        self._set_steps()

    def on_epoch_begin(self, epoch: int, *_: object) -> None:
        """Fit has just reset the metrics: until the next step they are 0."""
        self._reset_at = self._step
        self._session.epoch_counts.begun = epoch + 1

    def on_train_batch_begin(self, *_: object) -> None:
        """Wait until the workers have little left to do; save if it is time to."""
        coordinator = self._chief.coordinator
        while queue_depth(coordinator) >= len(self._chief.workers) and not self._stopped:
            self._look_now_and_then()
            self._session.run.stop.wait(_POLL_SECONDS)
        self._look_now_and_then()
        if self._stopped:
            raise _Stopped
        # Not between epochs, where the next has begun here: epoch_ended has saved.
        if self._recorder.checkpoint_due and self._chief.dealer.reached % self._epoch:
            self.wait_until_idle(for_readers=False)
            self._chief.save()

    def on_train_batch_end(self, *_: object) -> None:
        self._pace.follow(self._chief.worker_speed)
        self._set_steps()

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        self._end_at(min((epoch + 1) * self._epoch, self._session.total))
        step = self._look()
        self.metrics = model.metrics(self._session.model)
        # Where epochs are short, what is published here is all that is published.
        self._chief.note_work()
        self._chief.publish(step, self.metrics)
        # The callbacks after this one get the same dict. Fit has read it before the rest was made.
        logs.update(self.metrics)
        if self._end_of_epoch is not None:
            logs.update(_outside_scope(self._end_of_epoch, step, self.metrics))

    def epoch_ended(self, epoch: int) -> None:
        """Save between two epochs, if it is time to, when all callbacks are done with this one."""
        self._session.epoch_counts.ended = epoch + 1
        if self._recorder.checkpoint_due:
            self._chief.save()

    def on_train_end(self, *_: object) -> None:
        """Save before the user's callbacks, which may fail."""
        self._end_at(self._session.total)
        self.wait_until_idle()
        self._recorder.save_last(*self._chief.place, complete=self._is_last)

    def _end_at(self, number: int) -> None:
        """Have all batches before a number made; raise _Stopped if SIGTERM keeps it from that."""
        self._before_end(number)
        is_made = self._chief.dealer.done >= number or self._session.model.stop_training
        if self._stopped and not (is_made and self._chief.is_idle):
            raise _Stopped

    def wait_until_idle(self, *, for_readers: bool = True) -> None:
        """Wait until all that is scheduled is done, or one worker hangs.

        `for_readers` has it wait for workers that read, if training cannot end without them.
        """
        began = time.monotonic()
        while (reads := for_readers and self._awaits_readers) or not self._chief.is_idle:
            self._look_now_and_then()
            # Others may have to make all that is scheduled, and be slow: while they do, it is
            # waited for.
            stepped = self._session.run.progress.snapshot.stepped_at or began
            since = began if self._stopped else max(began, stepped)
            patience = LONGEST_STOP if self._stopped else self._patience
            if not reads and time.monotonic() - since > patience:
                self._chief.give_up_waiting()
                break
            time.sleep(_POLL_SECONDS)
        self._look()

    def _look_now_and_then(self) -> None:
        if time.monotonic() >= self._look_due:
            self._look()

    def _look(self) -> int:
        chief, session = self._chief, self._session
        # Raises what a scheduled function raised.
        chief.coordinator.done()
        self._step = step = int(session.step.numpy())
        self._look_due = time.monotonic() + _LOOK_SECONDS
        chief.note_progress(step)
        if self._recorder.wants_metrics and step > self._reset_at:
            chief.publish(step, model.metrics(session.model))
        return step

    @property
    def steps_a_call(self) -> int:
        """How many steps a scheduled function should make."""
        return max(_SEVERAL, self._pace.steps)

    def _set_steps(self) -> None:
        # Here, and not before a batch: Keras has then counted the steps that it schedules.
        self._session.model.steps_per_execution = self.steps_a_call

    @property
    def _awaits_readers(self) -> bool:
        return self._chief.awaits_readers and not self._stopped

    @property
    def _stopped(self) -> bool:
        return self._session.run.stop.is_set()

    @property
    def _patience(self) -> float:
        """How long no step may be made (seconds) before a worker is taken to hang."""
        return longest_call(self._chief.worker_speed)
