"""Schedules functions of many steps on any free worker; used by asynchronous and local_steps.

Periodically nothing is scheduled until all workers are idle: only then are metrics reset,
checkpoints saved and callbacks called, so that the values that are read belong together.

TensorFlow handles the loss of a worker: another worker repeats its function, so a few more steps
than scheduled may be made. The remaining number is read from the step variable whenever the workers
are idle, so the total is exceeded by at most those few.

A worker that hangs is never idle. It is not waited for: the others continue with the next epoch,
and checkpoints are saved without it.
"""

import logging
import math
import time

import tensorflow as tf

from tftrainer import model, tf_types
from tftrainer.errors import TerminatedError
from tftrainer.pacing import Pace
from tftrainer.parameter_server.coordinator_internals import drop_queued, queue_depth
from tftrainer.parameter_server.session import Session

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.01
# The step is read this often, and whenever the workers are idle: each read costs a ps 2 ms.
_LOOK_SECONDS = 0.2
# A function returns after the step in which this time ends, even if its steps have become slower
# than those it was sized by.
LONGEST_CALL = 5.0
# For so long workers may finish their functions after SIGTERM. Then the checkpoint is written
# beside them: a ps that has got SIGTERM too serves for server.CHIEF_SAVES_SECONDS only.
LONGEST_STOP = 2.5
# Workers are idle at the end of an epoch, but not much more often than this.
_BETWEEN_IDLE_SECONDS = 5.0


class ScheduledLoop:
    """The state of one training: how much is scheduled, and how fast it is done.

    `call(iterator, steps)` is what is scheduled: a tf.function that makes at most so many steps on
    the worker it runs on, and no more once LONGEST_CALL is over. It makes `granularity` steps at a
    time.
    """

    def __init__(self, session: Session, call: tf_types.Function, *, granularity: int = 1) -> None:
        arguments = session.job.arguments
        self._session = session
        self._run = session.run
        self._recorder = session.recorder
        self._coordinator = session.coordinator
        self._model = session.model
        self._step = session.step
        self._total = session.total
        self._epoch = session.epoch
        self._epochs = session.epochs()
        self._call = call
        self._granularity = granularity
        self._iterator = self._begin_input()
        self._input_began_at = -1
        self._pace = Pace(seconds=arguments.closure_seconds, fixed=arguments.steps_per_closure)
        # The step that is reached when all that was scheduled is done.
        self._scheduled = 0

    def run(self) -> None:
        """Make all steps; each iteration starts and ends with idle workers, unless one hangs."""
        done = self._scheduled = int(self._step.numpy())
        metrics: dict[str, float] = {}
        epoch_end = self._total
        self._epochs.begin(done)
        while done < self._total and not self._run.stop.is_set():
            if done >= epoch_end:
                self._model.reset_metrics()
            epoch_end = self._target(max(done, self._scheduled))
            try:
                done = self._advance(done, epoch_end)
            except tf.errors.OutOfRangeError:
                # The datasets are endless, but one that is cut off while it waits for data says
                # that it ended. The coordinator has dropped what was scheduled, and goes on.
                done = self._scheduled = int(self._step.numpy())
                if done == self._input_began_at:
                    raise
                _LOG.warning(
                    "the input of a worker was interrupted at step %d; all workers restart "
                    "their input",
                    done,
                )
                self._iterator, self._input_began_at = self._begin_input(), done
                continue
            metrics = model.metrics(self._model)
            self._recorder.publish(done, metrics)
            if not self._epochs.reached(done, metrics):
                break
            if self._recorder.checkpoint_due:
                self._recorder.save(done)
        if self._run.stop.is_set() and done < self._total:
            self._recorder.save(done)
            raise TerminatedError(f"terminated by SIGTERM at step {done} of {self._total}.")
        self._epochs.end(metrics)
        self._recorder.note_work(self._session.work.read())
        self._recorder.finish(min(done, self._total), metrics)

    def _begin_input(self) -> tf_types.Iterator:
        session = self._session
        return iter(session.coordinator.create_per_worker_dataset(session.dataset_function()))

    def _target(self, done: int) -> int:
        """Return the end of an epoch, far enough that waiting for idle workers costs little."""
        # Callbacks are promised every end of an epoch, with the metrics of that epoch alone.
        speed = 0.0 if self._epochs.has_callbacks else self._recorder.speed or 0.0
        enough = done + int(speed * _BETWEEN_IDLE_SECONDS)
        epochs = max(done // self._epoch + 1, enough // self._epoch)
        return min(self._total, epochs * self._epoch)

    def _advance(self, start: int, target: int) -> int:
        """Schedule until the target, a due checkpoint or SIGTERM; return when workers are idle."""
        now_at, look_due = start, -math.inf
        idle_awaited_since = math.inf
        while True:
            stopped = self._run.stop.is_set()
            if stopped:
                # In each turn: a worker that ends puts back what it was at.
                drop_queued(self._coordinator)
            closed = stopped or self._recorder.checkpoint_due
            while (
                not closed
                and self._scheduled < target
                and queue_depth(self._coordinator) < self._ready
            ):
                self._schedule(min(self._steps_a_call, target - self._scheduled))
            idle, now = self._coordinator.done(), time.monotonic()
            if idle or now >= look_due:
                look_due = now + _LOOK_SECONDS
                now_at = int(self._step.numpy())
                self._session.note_progress(now_at)
                self._pace.follow(self._speed)
                if self._recorder.wants_metrics and now_at > start:
                    self._recorder.publish(now_at, model.metrics(self._model))
            if idle:
                self._scheduled = now_at
                return now_at
            if closed or self._scheduled >= target:
                idle_awaited_since = min(idle_awaited_since, now)
            if now - idle_awaited_since > (LONGEST_STOP if stopped else self._patience):
                _LOG.info("a worker is still busy or hangs; continuing without it")
                return now_at
            self._run.stop.wait(_POLL_SECONDS) if not closed else time.sleep(_POLL_SECONDS)

    def _schedule(self, steps: int) -> None:
        # A tensor, lest every number be traced anew.
        arguments = (self._iterator, tf.constant(steps, tf.int64))
        self._coordinator.schedule(self._call, args=arguments)
        self._scheduled += steps

    @property
    def _ready(self) -> int:
        """How many functions wait for a worker: one for each, and what is done while we sleep."""
        a_second = (self._recorder.speed or 0.0) / self._steps_a_call
        return len(self._session.workers) + math.ceil(2 * _POLL_SECONDS * a_second)

    @property
    def _steps_a_call(self) -> int:
        rounds = max(1, self._pace.steps // self._granularity)
        return rounds * self._granularity

    @property
    def _speed(self) -> float | None:
        """Steps per second of one worker; None before it is known."""
        speed = self._recorder.speed
        return speed and speed / len(self._session.workers)

    @property
    def _patience(self) -> float:
        """How long a function can take (seconds), if its steps are half as fast as usual."""
        slowest = 2 * self._granularity
        return LONGEST_CALL + slowest / self._speed if self._speed else math.inf
