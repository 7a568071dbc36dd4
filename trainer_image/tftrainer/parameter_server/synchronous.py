"""Synchronous training: each step averages the gradients of all workers, and applies them once.

In each step every worker computes the gradients of one batch, the next of those that all of them
share; the chief adds them up, weighted by the examples of each batch, always in the same order, and
applies the sum. The result is bit-identical to that of one process which does the same with the
same batches.

A worker that is lost or does not answer is skipped until it is available again. Its batch goes to
another in the next step; what it computes late is dropped. So each batch counts once.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tftrainer import tf_types
from tftrainer.data.batches import examples_in
from tftrainer.parameter_server import gradients
from tftrainer.parameter_server.chief import Chief
from tftrainer.parameter_server.pinned_calls import (
    PinnedCall,
    PinnedWorker,
    State,
    at_chief,
    fetched,
)
from tftrainer.parameter_server.shared_input import NEAR, NUMBER
from tftrainer.runtime.throughput import Work
from tftrainer.training.session import Session
from tftrainer.user import model

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
# Who has not answered for so long is not waited for; gRPC gives up a process that hangs later.
_SILENT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class _Part:
    """What one worker has for one step."""

    gradients: gradients.Values
    examples: int
    waiting: float
    busy: float
    loss: NDArray[Any]
    """Of its batch alone; no axes."""
    place: tuple[int, int]
    """Pass and index of its batch."""


def training(chief: Chief) -> "SynchronousTraining":
    """Make the training; `run` it."""
    return SynchronousTraining(chief)


class SynchronousTraining:
    """The state of one training."""

    def __init__(self, chief: Chief) -> None:
        chief.require_one_device()
        session = chief.session
        self._chief = chief
        self._session = session
        self._run = session.run
        self._recorder = session.recorder
        self._epochs = chief.epochs()
        self._metrics: dict[str, float] = {}
        self._published = 0
        self._dealer = chief.dealer
        self._iterators = chief.input.iterators()
        self._workers = [
            _Worker(name, PinnedWorker(chief.coordinator, number))
            for number, name in enumerate(chief.workers)
        ]
        # Both now, and never again: a new graph is sent to every server, and waits for one that
        # hangs.
        self._part, packing = _part(chief)
        self._apply = _apply(session, packing)

    def run(self) -> None:
        """Make all steps."""
        chief, session, dealer = self._chief, self._session, self._dealer
        epoch = session.length.of_epoch
        step = self._published = int(session.step.numpy())
        # They may be restored, of an epoch that has ended.
        metrics_are_old = dealer.reached % epoch == 0
        goes_on = self._epochs.begin(dealer.reached)
        while goes_on and not dealer.is_complete and not self._run.stop.is_set():
            self._epochs.before_steps(dealer.reached)
            if metrics_are_old:
                session.model.reset_metrics()
                metrics_are_old = False
            epoch_end = (dealer.reached // epoch + 1) * epoch
            parts = self._parts(step, epoch_end)
            if not parts:
                continue
            loss = self._learn(parts)
            step += 1
            self._recorder.note(step)
            self._recorder.note_loss(step, loss)
            metrics_are_old = dealer.reached >= epoch_end
            if self._recorder.wants_metrics or (metrics_are_old and self._epochs.every_end_counts):
                self._publish(step)
            goes_on = self._epochs.reached(dealer.reached, self._metrics)
            if goes_on and self._recorder.checkpoint_due:
                chief.save()
        if goes_on:
            chief.end_if_stopped()
        if self._published != step:
            self._publish(step)
        chief.finish(step, self._metrics, ending=self._epochs)

    def _publish(self, step: int) -> None:
        self._recorder.note_work([worker.work for worker in self._workers])
        self._metrics = model.metrics(self._session.model)
        self._chief.publish(step, self._metrics)
        self._published = step

    def _parts(self, step: int, epoch_end: int) -> list[_Part]:
        """Have each worker that is there compute; return what they have, by rising batches.

        Empty if nobody is there, or SIGTERM came.
        """
        asked = self._asked(epoch_end)
        if not asked:
            self._run.stop.wait(_POLL_SECONDS)
        while waited_for := [w for w in asked if w.is_computing and not self._is_silent(w)]:
            waited_for[0].wait(_POLL_SECONDS)
            self._recorder.note(step)
            self._recorder.note_reading(is_reading=self._chief.is_reading)
            if self._run.stop.is_set():
                return []
        parts = []
        for worker, given in sorted(asked.items(), key=lambda each: each[1].start):
            part = worker.take()
            if part is None:
                self._dealer.lose(given)
            else:
                self._dealer.note(given, 1, part.place)
                parts.append(part)
        return parts

    def _asked(self, epoch_end: int) -> dict["_Worker", range]:
        """Give each worker that is there its next batch of this epoch, as long as there are any."""
        asked: dict[_Worker, range] = {}
        for number, worker in enumerate(self._workers):
            if not worker.is_free:
                continue
            if (given := self._dealer.take(1, epoch_end, number)) is not None:
                worker.ask(self._part, self._iterators, given)
                asked[worker] = given
        return asked

    def _learn(self, parts: list[_Part]) -> float:
        """Apply the mean of the gradients; return the mean of the losses."""
        examples = sum(part.examples for part in parts)
        weights = [part.examples / examples for part in parts]
        self._apply(gradients.mean([part.gradients for part in parts], weights))
        losses = [{"loss": part.loss} for part in parts]
        return float(gradients.mean(losses, weights)["loss"])

    def _is_silent(self, worker: "_Worker") -> bool:
        now = time.monotonic()
        return any(
            peer.task == worker.name and peer.seconds(now) > _SILENT_SECONDS
            for peer in self._run.progress.snapshot.unreachable
        )


class _Worker:
    """One worker: what it computes now, and what it has done."""

    def __init__(self, name: str, pinned: PinnedWorker) -> None:
        self.name = name
        self.work = Work()
        self._pinned = pinned
        self._call: PinnedCall | None = None
        self._missed = False

    @property
    def is_free(self) -> bool:
        """Whether it can be asked; not if it is lost, or still at an older part."""
        if self._call is not None:
            if self._call.state is not State.DONE:
                return False
            # Begun for a step that went on without it.
            self._call.value()
            self._call = None
        return True

    def ask(self, part: Callable[..., _Part], iterators: tf_types.Iterator, given: range) -> None:
        """Have it compute its part of a step, from the batch of the only number given."""
        if self._missed:
            _LOG.info("%s rejoined", self.name)
            self._missed = False
        self._call = self._pinned.call(part, iterators, given.start, given.step)

    @property
    def is_computing(self) -> bool:
        return self._call is not None and self._call.state is State.RUNNING

    def wait(self, seconds: float) -> None:
        if self._call is not None:
            self._call.wait(seconds)

    def take(self) -> _Part | None:
        """Take what it computed; None if it is not there. Raises what went wrong with it."""
        if self._call is None or self._call.state is not State.DONE:
            _LOG.warning("%s unavailable; continuing without it", self.name)
            self._missed = True
            return None
        part: _Part = self._call.value()
        self._call = None
        self.work += Work(part.examples, part.waiting, part.busy)
        return part


def _part(chief: Chief) -> tuple[Callable[..., _Part], gradients.Packing]:
    """Make the function that a worker's part of a step is, and say how it packs gradients."""
    session, shared = chief.session, chief.input
    packings: list[gradients.Packing] = []
    loss_types: list[tf.DType] = []

    @tf.function
    def compute(
        iterator: tf_types.Iterator,
        number: tf_types.Tensor,
        by: tf_types.Tensor,
        near: tf_types.Tensor,
    ) -> tuple[gradients.Packed, tf_types.Tensor]:
        began = tf.timestamp()
        read = shared.read(iterator, number, by, near=near, after=began)
        # Not strategy.run, which would warn that this is no worker.
        replica = tf.distribute.ReplicaContext(session.setup.strategy, replica_id_in_sync_group=0)
        # As strategy.run has one, which layers ask for that work together with other replicas.
        device = tf.device(session.setup.strategy.extended.worker_devices[0])
        with gradients.taken(session.model) as taken, replica, device:
            loss = session.make_step(read.batch)
        taken.check_is_of(tf.compat.v1.get_default_graph())
        packing = gradients.Packing(taken.gradients)
        packed = packing.pack([gradient for gradient, _ in taken.gradients])
        packings.append(packing)
        loss_types.append(loss.dtype)
        with tf.control_dependencies([*packed.values(), loss]):
            busy = tf.timestamp() - began
        examples = tf.cast(examples_in(read.batch), tf.float64)
        # Every loss is exact in float64, and so are the numbers of batches.
        numbers = [examples, read.waited, busy, tf.cast(loss, tf.float64)]
        return packed, tf.concat([tf.stack(numbers), tf.cast(read.place, tf.float64)], axis=0)

    with session.traces_a_step():
        concrete = compute.get_concrete_function(shared.spec, NUMBER, NUMBER, NEAR)

    def part(iterator: tf_types.Iterator, first: int, by: int) -> _Part:
        near = chief.dealer.near(first)
        packed, numbers = fetched(concrete(iterator, *at_chief([first, by, near])))
        examples, waiting, busy, loss, *place = numbers.numpy().tolist()
        return _Part(
            gradients={name: value.numpy() for name, value in packed.items()},
            examples=int(examples),
            waiting=waiting,
            busy=busy,
            loss=np.asarray(loss, loss_types[-1].as_numpy_dtype),
            place=(int(place[0]), int(place[1])),
        )

    return part, packings[-1]


def _apply(session: Session, packing: gradients.Packing) -> tf_types.Function:
    @tf.function(input_signature=[packing.signature()], autograph=False)
    def apply(packed: gradients.Packed) -> None:
        with tf.distribute.ReplicaContext(session.setup.strategy, replica_id_in_sync_group=0):
            session.model.optimizer.apply_gradients(packing.unpack(packed))
        session.step.assign_add(1)

    return apply.get_concrete_function()
