"""Synchronous training: each step averages the gradients of all workers, and applies them once.

The workers divide the batches of one dataset, which all of them shuffle in the same order. In each
step every worker computes the gradients of its next batch; the chief adds them up, weighted by the
examples of each batch, always in the same order, and applies the sum. The result is bit-identical
to that of one process which does the same with the same batches.

A worker that is lost or does not answer is skipped until it is available again.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tftrainer import model, tf_types
from tftrainer.batches import examples_in, timed_next
from tftrainer.errors import BadConfigurationError, TerminatedError
from tftrainer.parameter_server import gradients
from tftrainer.parameter_server.pinned_calls import PinnedCall, PinnedWorker, State, fetched
from tftrainer.parameter_server.session import Session
from tftrainer.step_losses import returning_loss
from tftrainer.throughput import Work

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
# Who has not answered for so long is not waited for; gRPC mostly gives up a process that hangs
# before that.
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


def training(session: Session) -> "SynchronousTraining":
    """Make the training; `run` it."""
    return SynchronousTraining(session)


class SynchronousTraining:
    """The state of one training."""

    def __init__(self, session: Session) -> None:
        if session.strategy.num_replicas_in_sync > 1:
            raise BadConfigurationError(
                "--mode=synchronous supports at most one GPU per worker: give each worker one GPU, "
                "and use more workers."
            )
        self._session = session
        self._run = session.run
        self._recorder = session.recorder
        self._epochs = session.epochs()
        self._metrics: dict[str, float] = {}
        self._published = 0
        dataset = session.coordinator.create_per_worker_dataset(session.dataset_function())
        self._iterator = iter(dataset)
        self._workers = [
            _Worker(name, PinnedWorker(session.coordinator, number))
            for number, name in enumerate(session.workers)
        ]
        # Both now, and never again: a new graph is sent to every server, and waits for one that
        # hangs.
        self._part, packing = _part(session, tf.data.IteratorSpec(dataset.element_spec))
        self._apply = _apply(session, packing)

    def run(self) -> None:
        """Make all steps."""
        session, total = self._session, self._session.total
        done = self._published = int(session.step.numpy())
        # Since an end of an epoch that was told of: with very short epochs that is not every one.
        metrics_are_old = False
        self._epochs.begin(done)
        while done < total and not self._run.stop.is_set():
            if metrics_are_old:
                session.model.reset_metrics()
                metrics_are_old = False
            parts = self._parts(done)
            if not parts:
                continue
            loss = self._learn(parts)
            done += 1
            self._recorder.note(done)
            self._recorder.note_loss(done, loss)
            ends = done % session.epoch == 0
            if self._recorder.wants_metrics or (ends and self._epochs.has_callbacks):
                self._publish(done)
                metrics_are_old = ends
            if not self._epochs.reached(done, self._metrics):
                break
            if self._recorder.checkpoint_due:
                self._recorder.save(done)
        if self._run.stop.is_set() and done < total:
            self._recorder.save(done)
            raise TerminatedError(f"terminated by SIGTERM at step {done} of {total}.")
        if self._published != done:
            self._publish(done)
        self._epochs.end(self._metrics)
        self._recorder.finish(done, self._metrics)

    def _publish(self, done: int) -> None:
        self._recorder.note_work([worker.work for worker in self._workers])
        self._metrics = model.metrics(self._session.model)
        self._recorder.publish(done, self._metrics)
        self._published = done

    def _parts(self, done: int) -> list[_Part]:
        """Have each worker that is there compute; return what they have, in their order.

        Empty if nobody is there, or SIGTERM came.
        """
        asked = [worker for worker in self._workers if worker.ask(self._part, self._iterator)]
        if not asked:
            self._run.stop.wait(_POLL_SECONDS)
        while waited_for := [w for w in asked if w.is_computing and not self._is_silent(w)]:
            waited_for[0].wait(_POLL_SECONDS)
            self._recorder.note(done)
            if self._run.stop.is_set():
                return []
        parts = [worker.take() for worker in asked]
        return [part for part in parts if part is not None]

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

    def ask(self, part: Callable[..., _Part], iterator: tf_types.Iterator) -> bool:
        """Have it compute its next part; False if it is lost, or still at an older one."""
        if self._call is not None:
            if self._call.state is not State.DONE:
                return False
            # Begun for a step that went on without it.
            self._call.value()
        if self._missed:
            _LOG.info("%s rejoined", self.name)
            self._missed = False
        self._call = self._pinned.call(part, iterator)
        return True

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
        self.work = Work(
            examples=self.work.examples + part.examples,
            waiting=(self.work.waiting or 0.0) + part.waiting,
            busy=self.work.busy + part.busy,
        )
        return part


def _part(session: Session, spec: Any) -> tuple[Callable[..., _Part], gradients.Packing]:  # noqa: ANN401
    """Make the function that a worker's part of a step is, and say how it packs gradients."""
    step_and_loss = returning_loss(session.model, session.make_step)
    packings: list[gradients.Packing] = []
    loss_types: list[tf.DType] = []

    @tf.function
    def compute(iterator: tf_types.Iterator) -> tuple[gradients.Packed, tf_types.Tensor]:
        began = tf.timestamp()
        batch, waited = timed_next(iterator, after=began)
        # Not strategy.run, which would warn that this is no worker.
        replica = tf.distribute.ReplicaContext(session.strategy, replica_id_in_sync_group=0)
        with gradients.taken(session.model) as taken, replica:
            loss = step_and_loss(batch)
        packing = gradients.Packing(taken.gradients)
        packed = packing.pack([gradient for gradient, _ in taken.gradients])
        packings.append(packing)
        loss_types.append(loss.dtype)
        with tf.control_dependencies([*packed.values(), loss]):
            busy = tf.timestamp() - began
        examples = tf.cast(examples_in(batch), tf.float64)
        # Every loss is exact in float64.
        return packed, tf.stack([examples, waited, busy, tf.cast(loss, tf.float64)])

    concrete = compute.get_concrete_function(spec)

    def part(iterator: tf_types.Iterator) -> _Part:
        packed, numbers = fetched(concrete(iterator))
        examples, waiting, busy, loss = numbers.numpy().tolist()
        return _Part(
            gradients={name: value.numpy() for name, value in packed.items()},
            examples=int(examples),
            waiting=waiting,
            busy=busy,
            loss=np.asarray(loss, loss_types[-1].as_numpy_dtype),
        )

    return part, packings[-1]


def _apply(session: Session, packing: gradients.Packing) -> tf_types.Function:
    @tf.function(input_signature=[packing.signature()], autograph=False)
    def apply(packed: gradients.Packed) -> None:
        with tf.distribute.ReplicaContext(session.strategy, replica_id_in_sync_group=0):
            session.model.optimizer.apply_gradients(packing.unpack(packed))
        session.step.assign_add(1)

    return apply.get_concrete_function()
