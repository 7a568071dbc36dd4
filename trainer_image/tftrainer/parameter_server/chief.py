"""What every mode starts from: servers connected, the session begun on them, batches to deal out.

Called by __init__; the modes schedule their steps through it.
"""

import functools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tftrainer import tf_types
from tftrainer.config.arguments import Arguments, FitInput, Mode
from tftrainer.config.cluster import Cluster, Role
from tftrainer.config.job import Job
from tftrainer.data.position import Position
from tftrainer.errors import BadConfigurationError
from tftrainer.parameter_server.coordinator_internals import (
    forgive,
    queue_depth,
    reset_transient_failures,
    schedule,
    traced,
    unfinished,
)
from tftrainer.parameter_server.dealer import Dealer
from tftrainer.parameter_server.replicas import use_logical_cpus
from tftrainer.parameter_server.server_files import ServerFiles
from tftrainer.parameter_server.server_links import LinkWatch
from tftrainer.parameter_server.shared_input import NEAR, NUMBER, SharedInput
from tftrainer.parameter_server.work import WorkTable
from tftrainer.peering import remote_context
from tftrainer.peering.peers import StatusProbe
from tftrainer.runtime.supervisor import Run
from tftrainer.saving.fence import Fence, claim
from tftrainer.training import session
from tftrainer.training.epochs import Epochs
from tftrainer.training.members import Members
from tftrainer.training.session import Session, Setup

_LOG = logging.getLogger(__name__)
# A worker that is back first reads up to where this process began.
_READINGS = 2


@dataclass(frozen=True, slots=True)
class Chief:
    """One chief's training, ready to begin."""

    session: Session
    coordinator: tf_types.Coordinator
    workers: tuple[str, ...]
    """Names of the workers, in TensorFlow's order."""
    work: WorkTable
    input: SharedInput
    dealer: Dealer
    links: LinkWatch

    def epochs(self) -> Epochs:
        """Make what tells the user's callbacks, for the modes that call them themselves."""
        return self.session.epochs(self._reached)

    def end_of_epoch(
        self, callbacks: Sequence[tf_types.Callback]
    ) -> Callable[[int, Mapping[str, float]], Mapping[str, float]] | None:
        """Return what is called with the metrics at all ends of epochs; None if nothing must be."""
        return self.session.end_of_epoch(callbacks, self._reached)

    def _reached(self, _: int) -> tuple[int, Position]:
        return self.place

    def traced(self, call: tf_types.Function) -> tf_types.Function:
        """Return the concrete function of a tf.function (iterator, first, end, step, near)."""
        specs = self.input.spec, NUMBER, NUMBER, NUMBER, NEAR
        with self.session.traces_a_step():
            return traced(self.session.setup.strategy, call, *specs)

    def schedule(
        self, call: tf_types.Function, iterators: tf_types.Iterator, *, most: int, until: int
    ) -> bool:
        """Have any worker train on what the dealer gives it; False if there is nothing to give.

        `call` is a concrete function (iterator, first, end, step, near), which returns how many it
        made and pass and index of the last (int64, [3]); for `near` see SharedInput.read.
        """
        if not self.dealer.has_any(most, until):
            return False

        def take(worker: int) -> range | None:
            return None if self.links.rests() else self.dealer.take(most, until, worker)

        def done(given: range, result: NDArray[np.int64]) -> None:
            made, of_pass, index = result.tolist()
            self.dealer.note(given, made, (of_pass, index))

        schedule(
            self.coordinator,
            call,
            iterators,
            given=take,
            arguments=lambda each: (each.start, each.stop, each.step, self.dealer.near(each.start)),
            done=done,
            failed=self.dealer.lose,
        )
        return True

    @property
    def is_idle(self) -> bool:
        """Whether all that was scheduled is done, but for what workers that hang are at.

        Raises what a scheduled function raised.
        """
        # In this order: a worker that ends meanwhile, and begins anew, does not hang any more.
        return self.coordinator.done() or unfinished(self.coordinator) <= self.dealer.hanging

    def require_one_device(self) -> None:
        """Raise BadConfigurationError if a worker has several, which this mode cannot use."""
        if self.session.setup.strategy.num_replicas_in_sync > 1:
            mode = self.session.job.arguments.mode
            raise BadConfigurationError(
                f"--mode={mode} supports at most one GPU per worker: give each worker one GPU, and "
                "use more workers."
            )

    @property
    def worker_speed(self) -> float | None:
        """Recent steps per second of one worker; None before it is known."""
        speed = self.session.recorder.speed
        return speed and speed / len(self.workers)

    def give_up_waiting(self) -> None:
        """Go on without the workers that are at something, as those hang."""
        _LOG.info("a worker is still busy or hangs; continuing without it")
        self.dealer.give_up_waiting(also_readers=not self.is_reading)

    @property
    def is_reading(self) -> bool:
        """Whether a worker may be reading the data up to what it was given."""
        recorder = self.session.recorder
        return self.dealer.is_reading and recorder.seconds_since_step <= self._longest_reading

    @property
    def awaits_readers(self) -> bool:
        """Whether training cannot end before a worker has read the data up to what it was given."""
        return self.is_reading and self.dealer.opened >= self.session.total

    @property
    def _longest_reading(self) -> float:
        """How long it can take (seconds): no longer than what has read the same before."""
        session = self.session
        speed, batches = session.recorder.speed, session.length.of_pass
        steps = batches and batches / session.setup.batches_a_step
        a_pass = steps / speed if steps and speed else math.inf
        return _READINGS * min(a_pass, session.recorder.trained_seconds)

    def publish(self, step: int, metrics: Mapping[str, float]) -> None:
        """Publish step and metrics, and at which step training will probably end."""
        recorder = self.session.recorder
        # While functions run, what they have made is in the step, but not yet off what is left.
        if self.coordinator.done():
            made = int(self.session.step.numpy())
            recorder.expect(self.session.last_step(made, self.dealer.left))
            recorder.note_repeated(self._repeated(made, self.dealer.trained))
        recorder.publish(step, metrics)

    def save(self) -> None:
        """Save a checkpoint with the position in the data."""
        self.session.recorder.save(*self.place)

    @property
    def place(self) -> tuple[int, Position]:
        """Step and position, to save with the weights as they are.

        A worker that was not waited for may make steps until the weights are read: these are in the
        step that is saved with them, and Resumed.position counts them as repeated.
        """
        # One after the other, as what is done later is missing in this position.
        position, trained = self.dealer.position, self.dealer.trained
        step = int(self.session.step.numpy())
        return step, replace(position, repeated=self._repeated(step, trained))

    def _repeated(self, step: int, trained: int) -> int:
        """Return how many examples were trained on again at a step, by whole batches.

        `trained` are the batches that are done. While functions run, theirs count as repeated.
        """
        session, start = self.session, self.dealer.start
        again = step - session.first_step - trained if session.setup.batches_a_step == 1 else 0
        return start.repeated + max(0, again) * start.batch_size

    def terminate(self) -> NoReturn:
        """Save and end, after SIGTERM; raises TerminatedError."""
        self.session.terminate(*self.place, left=self.dealer.left)

    def end_if_stopped(self) -> None:
        """After SIGTERM, save and raise TerminatedError, unless training is complete."""
        if self.session.run.stop.is_set() and not self.dealer.is_complete:
            self.terminate()

    def finish(
        self,
        step: int,
        metrics: Mapping[str, float],
        *,
        ending: Epochs | None = None,
        save_again: bool = False,
    ) -> None:
        """Training is complete; see Recorder.finish."""
        (_, position), recorder = self.place, self.session.recorder
        recorder.note_repeated(position.repeated)
        if position.repeated:
            _LOG.info(
                "%d examples were trained on again, after a worker was lost", position.repeated
            )
        recorder.finish(step, metrics, position, ending=ending, save_again=save_again)

    def note_progress(self, step: int) -> None:
        """Tell the recorder the step that a ps has just told, and the rest when it publishes."""
        reset_transient_failures(self.coordinator)
        self.session.recorder.note(step)
        self.session.recorder.note_reading(is_reading=self.is_reading)
        if self.session.recorder.wants_metrics:
            self.note_work()

    def note_work(self) -> None:
        """Tell the recorder what each worker has done; a round trip."""
        self.session.recorder.note_work(self.work.read(), queue_depth(self.coordinator))


def begin(job: Job, run: Run, cluster: Cluster) -> Chief:
    """Connect, and begin the session on the ps; the peers are known to answer."""
    arguments = job.arguments
    remote_context.set_keep_alive(arguments.keep_alive_seconds)
    strategy = _connect(cluster, arguments)
    context_id = remote_context.own()
    run.before_exit.append(functools.partial(remote_context.close, cluster.peers, context_id))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    links = LinkWatch(cluster, StatusProbe())
    forgive(coordinator, links.passes)
    workers = tuple(member.name for member in cluster.of(Role.WORKER))
    is_synchronous = arguments.mode is Mode.SYNCHRONOUS
    begun = session.begin(
        job,
        run,
        Setup(
            strategy=strategy,
            members=Members(strategy),
            workers=workers,
            batches_a_step=len(workers) if is_synchronous else 1,
            returns_loss=is_synchronous,
            fills_gaps=True,
            claim_directory=functools.partial(_claim, cluster=cluster, context_id=context_id),
            devices=ServerFiles(cluster.of(Role.PS)),
        ),
    )
    with strategy.scope():
        work = WorkTable(len(workers))
    stream, passes = begun.stream, begun.length.passes(begun.start)
    is_copied = arguments.mode is Mode.FIT and arguments.fit_input is FitInput.DATASET
    shared = SharedInput(coordinator, stream, passes, workers=len(workers), is_copied=is_copied)
    if stream.is_shared and not passes.are_known and len(workers) > 1:
        _LOG.info(
            "the dataset has no known length: every worker makes the batches of all, and drops "
            "those of others. tf.data.experimental.assert_cardinality has each make its own alone"
        )
    dealer = Dealer(passes, total=begun.total, lanes=shared.lanes)
    begun.announce(dealer.left)
    return Chief(begun, coordinator, workers, work, shared, dealer, links)


def _claim(job: Job, *, cluster: Cluster, context_id: int | None) -> tuple[Job, Fence | None]:
    """Claim the directory, and free what the chief before uses: there is room for variables."""
    job, fence = claim(job, context=context_id)
    if fence is not None:
        remote_context.close(cluster.peers, fence.context_before)
    return job, fence


def _connect(cluster: Cluster, arguments: Arguments) -> tf_types.Strategy:
    began = time.monotonic()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.addresses()),
        task_type=str(Role.CHIEF),
        task_id=0,
        rpc_layer="grpc",
    )
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=_partitioner(cluster, arguments.partition_bytes)
    )
    if arguments.logical_cpus > 1:
        use_logical_cpus(strategy, arguments.logical_cpus)
    _LOG.info("connected to the cluster in %.1f s", time.monotonic() - began)
    if strategy.num_replicas_in_sync > 1:
        _LOG.info("each worker trains on %d devices", strategy.num_replicas_in_sync)
    moved = [f"{peer.name} as {peer.task}" for peer in cluster.peers if peer.name != str(peer.task)]
    if moved:
        _LOG.info("TensorFlow numbers workers without gaps; it refers to %s", ", ".join(moved))
    return strategy


def _partitioner(cluster: Cluster, partition_bytes: int) -> tf_types.Function | None:
    """Return what says how many parts a variable has; None if none is ever parted."""
    if not partition_bytes:
        return None
    return tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=partition_bytes, max_shards=len(cluster.of(Role.PS))
    )
