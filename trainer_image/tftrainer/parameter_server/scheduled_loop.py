"""Schedules functions of many steps on any free worker; used by asynchronous and local_steps.

Periodically nothing is scheduled until all workers are idle: only then are metrics reset,
checkpoints saved and callbacks called, so that the values that are read belong together.

Each function is given some batches when a worker begins with it, which nobody else gets. When a
worker is lost they are given to others, so a few steps are made twice, and none is left out.

A worker that hangs is never idle. It is waited for once. Then, until it ends what it is at, the
others continue with the next epoch, and checkpoints are saved, without it. Its batches are noted
there as missing, and given to others before training ends.
"""

import logging
import math
import time

from tftrainer import tf_types
from tftrainer.parameter_server.chief import Chief
from tftrainer.parameter_server.coordinator_internals import drop_queued, queue_depth
from tftrainer.training.pacing import Pace
from tftrainer.user import model

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.02
# The step is read this often, and whenever the workers are idle: each read costs a ps 2 ms.
_LOOK_SECONDS = 0.2
# A function returns after the step in which this time ends, even if its steps have become slower
# than those it was sized by.
LONGEST_CALL = 5.0
# For so long workers may finish their functions after SIGTERM. Then the checkpoint is written
# beside them: a ps that has got SIGTERM too serves for server.CHIEF_SAVES_SECONDS only.
LONGEST_STOP = 2.5
# Workers are idle at the end of an epoch, but not much more often than this: the first that has
# finished waits for the last, up to a function's time.
_BETWEEN_IDLE_SECONDS = 15.0


def longest_call(speed: float | None, granularity: int = 1) -> float:
    """Return how long a call can take (seconds), if its last steps are half as fast as usual.

    `speed` is in steps per second of one worker, which makes `granularity` of them at once; None
    before it is known, when a call may take for ever.
    """
    return LONGEST_CALL + 2 * granularity / speed if speed else math.inf


class ScheduledLoop:
    """The state of one training: what is scheduled, and how fast it is done.

    `call(iterator, first, end, step, near)` is what is scheduled: a tf.function that trains on the
    batches of these numbers on the worker it runs on, and on no more once LONGEST_CALL is over. It
    returns how many it made, and pass and index of the last (int64, [3]). It makes `granularity`
    steps at a time.
    """

    def __init__(self, chief: Chief, call: tf_types.Function, *, granularity: int = 1) -> None:
        session, arguments = chief.session, chief.session.job.arguments
        self._chief = chief
        self._run = session.run
        self._recorder = session.recorder
        self._coordinator = chief.coordinator
        self._model = session.model
        self._step = session.step
        self._total = session.total
        self._epoch = session.length.of_epoch
        self._dealer = chief.dealer
        self._epochs = chief.epochs()
        self._call = chief.traced(call)
        self._granularity = granularity
        self._iterators = chief.input.iterators()
        self._pace = Pace(seconds=arguments.closure_seconds, fixed=arguments.steps_per_closure)

    def run(self) -> None:
        """Make all steps; each iteration starts and ends with idle workers, unless one hangs."""
        step, dealer = int(self._step.numpy()), self._dealer
        metrics: dict[str, float] = {}
        # What metrics were restored with is of this epoch, or of the one that has just ended.
        epoch_end = self._total if dealer.reached % self._epoch else dealer.reached
        goes_on = self._epochs.begin(dealer.reached)
        while goes_on and not dealer.is_complete and not self._run.stop.is_set():
            self._epochs.before_steps(dealer.reached)
            if dealer.reached >= epoch_end:
                self._model.reset_metrics()
            epoch_end = self._target(dealer.reached)
            step = self._advance(step, epoch_end)
            # Before the last epoch's end: what callbacks see there is all of the training.
            while self._waits_for_a_worker_that_hangs:
                _LOG.info("%d batches of a worker that hangs are given to others", dealer.left)
                dealer.take_back()
                step = self._advance(step, self._total)
            metrics = model.metrics(self._model)
            # Where epochs are short, what is published here is all that is published.
            self._chief.note_work()
            self._chief.publish(step, metrics)
            # After SIGTERM the next process ends an epoch that some worker is at: all of it.
            done = dealer.done if self._run.stop.is_set() else dealer.reached
            goes_on = self._epochs.reached(done, metrics)
            if goes_on and self._recorder.checkpoint_due:
                self._chief.save()
        if goes_on:
            self._chief.end_if_stopped()
        # Since it was read, a worker that was not waited for may have ended.
        step = int(self._step.numpy())
        self._recorder.note_work(self._chief.work.read())
        self._chief.finish(step, metrics, ending=self._epochs)

    @property
    def _waits_for_a_worker_that_hangs(self) -> bool:
        at_end = self._dealer.reached >= self._total and not self._dealer.is_complete
        return at_end and not self._run.stop.is_set()

    def _target(self, done: int) -> int:
        """Return the end of an epoch, far enough that waiting for idle workers costs little."""
        # Callbacks are promised every end of an epoch, with the metrics of that epoch alone.
        speed = 0.0 if self._epochs.every_end_counts else self._recorder.speed or 0.0
        epoch, enough = self._epoch, done + int(speed * _BETWEEN_IDLE_SECONDS)
        epochs = max(done // epoch + 1, enough // epoch)
        return min(self._total, epochs * epoch)

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
            all_given = False
            while not (closed or all_given) and queue_depth(self._coordinator) < self._ready:
                all_given = not self._schedule(target)
            idle, now = self._chief.is_idle, time.monotonic()
            if idle or now >= look_due:
                look_due = now + _LOOK_SECONDS
                now_at = int(self._step.numpy())
                self._chief.note_progress(now_at)
                self._pace.follow(self._chief.worker_speed)
                if self._recorder.wants_metrics and now_at > start:
                    self._chief.publish(now_at, model.metrics(self._model))
            waits = closed or (all_given and not self._chief.awaits_readers)
            if idle and waits:
                return now_at
            idle_awaited_since = min(idle_awaited_since, now) if waits else math.inf
            if now - idle_awaited_since > (LONGEST_STOP if stopped else self._patience):
                self._chief.give_up_waiting()
                return now_at
            self._run.stop.wait(_POLL_SECONDS) if not closed else time.sleep(_POLL_SECONDS)

    def _schedule(self, target: int) -> bool:
        """Schedule one more function; False if there is nothing left to give."""
        return self._chief.schedule(
            self._call, self._iterators, most=self._steps_a_call, until=target
        )

    @property
    def _ready(self) -> int:
        """How many functions wait for a worker: one for each, and what is done while we sleep."""
        a_second = (self._recorder.speed or 0.0) / self._steps_a_call
        return len(self._chief.workers) + math.ceil(2 * _POLL_SECONDS * a_second)

    @property
    def _steps_a_call(self) -> int:
        rounds = max(1, self._pace.steps // self._granularity)
        return rounds * self._granularity

    @property
    def _patience(self) -> float:
        return longest_call(self._chief.worker_speed, self._granularity)
