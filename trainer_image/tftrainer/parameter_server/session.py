"""Sets up what every mode starts from: servers connected, model built on the ps and restored."""

import functools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tftrainer import tf_types
from tftrainer.config.arguments import Arguments, FitInput, Mode
from tftrainer.config.cluster import Cluster, Role
from tftrainer.config.job import Job
from tftrainer.context import Context
from tftrainer.data.input_stream import InputStream
from tftrainer.data.length import measured
from tftrainer.data.position import ENDLESS, Passes, Position, drawn
from tftrainer.errors import TerminatedError
from tftrainer.parameter_server.coordinator_internals import (
    queue_depth,
    reset_transient_failures,
    schedule,
    traced,
    unfinished,
)
from tftrainer.parameter_server.dealer import Dealer
from tftrainer.parameter_server.replicas import use_logical_cpus
from tftrainer.parameter_server.server_files import ServerFiles
from tftrainer.parameter_server.shared_input import SharedInput
from tftrainer.parameter_server.work import WorkTable
from tftrainer.peering import remote_context
from tftrainer.runtime.supervisor import Run
from tftrainer.saving.export import Exporter
from tftrainer.saving.fence import claim
from tftrainer.saving.resume import resume
from tftrainer.training import tensorboard, validation
from tftrainer.training.epochs import Epochs
from tftrainer.training.recorder import Recorder
from tftrainer.user import model
from tftrainer.user.callbacks import Callbacks
from tftrainer.user.task import UserTask, load

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Session:
    """One chief's training, ready to begin."""

    job: Job
    run: Run
    strategy: tf_types.Strategy
    coordinator: tf_types.Coordinator
    workers: tuple[str, ...]
    """Names of the workers, in TensorFlow's order."""
    task: UserTask
    context: Context
    model: tf_types.Model
    make_step: tf_types.Function
    """(batch) -> dict of metrics: one step on one replica."""
    step: tf_types.Variable
    """Steps made: int64, no axes, on a ps."""
    first_step: int
    """The step at which this process began."""
    work: WorkTable
    input: SharedInput
    dealer: Dealer
    batches_a_step: int
    """How many batches one step takes, if all workers are there."""
    total: int
    """Batches that make the training complete, counted from its beginning."""
    epoch: int
    """Batches of an epoch."""
    recorder: Recorder

    def epochs(self) -> Epochs:
        """Make what tells the user's callbacks, for the modes that call them themselves."""
        callbacks = Callbacks.of(
            self.task,
            self.context,
            self.model,
            run=self.run,
            epochs=self.job.arguments.epochs,
            steps_per_epoch=math.ceil(self.epoch / self.batches_a_step),
        )
        return Epochs(
            callbacks,
            batches=self.epoch,
            total=self.total,
            validate=self.end_of_epoch(callbacks.all),
        )

    def end_of_epoch(
        self, callbacks: Sequence[tf_types.Callback]
    ) -> Callable[[int, Mapping[str, float]], Mapping[str, float]] | None:
        """Return what is called with the metrics at all ends of epochs; None if nothing must be."""
        validated = validation.wanted(self.job, self.task, self.context, callbacks, run=self.run)
        if not self.recorder.evaluates(validated):
            return None
        return lambda _, metrics: self.recorder.end_epoch(
            int(self.step.numpy()), self.position, metrics
        )

    def traced(self, call: tf_types.Function) -> tf_types.Function:
        """Return the concrete function of a tf.function (iterator, first, end, step)."""
        number = tf.TensorSpec([], tf.int64)
        return traced(self.strategy, call, self.input.spec, number, number, number)

    def schedule(
        self, call: tf_types.Function, iterators: tf_types.Iterator, *, most: int, until: int
    ) -> bool:
        """Have any worker train on what the dealer gives it; False if there is nothing to give.

        `call` is a concrete function (iterator, first, end, step), which returns how many it made
        and pass and index of the last (int64, [3]).
        """
        if not self.dealer.has_any(most, until):
            return False

        def done(given: range, result: NDArray[np.int64]) -> None:
            made, of_pass, index = result.tolist()
            self.dealer.note(given, made, (of_pass, index))

        schedule(
            self.coordinator,
            call,
            iterators,
            given=lambda worker: self.dealer.take(most, until, worker),
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

    def publish(self, step: int, metrics: Mapping[str, float]) -> None:
        """Publish step and metrics, and at which step training will probably end."""
        # While functions run, what they have made is in the step, but not yet off what is left.
        if self.coordinator.done():
            made = int(self.step.numpy())
            self.recorder.expect(self._last_step(made))
            self.recorder.note_repeated(self._repeated(made))
        self.recorder.publish(step, metrics)

    def save(self, step: int) -> None:
        """Save a checkpoint with the position in the data."""
        self.recorder.save(step, self.position)

    @property
    def position(self) -> Position:
        """What to save with the weights as they are."""
        position = self.dealer.position
        return replace(position, repeated=self._repeated(int(self.step.numpy())))

    def _repeated(self, step: int) -> int:
        """Return how many examples were trained on again at a step, by whole batches.

        While functions run, theirs are among them.
        """
        start = self.dealer.start
        again = step - self.first_step - self.dealer.trained if self.batches_a_step == 1 else 0
        return start.repeated + max(0, again) * start.batch_size

    def finish(
        self,
        step: int,
        metrics: Mapping[str, float],
        *,
        ending: Epochs | None = None,
        save_again: bool = False,
    ) -> None:
        """Training is complete; see Recorder.finish."""
        position = self.position
        self.recorder.note_repeated(position.repeated)
        if position.repeated:
            _LOG.info(
                "%d examples were trained on again, after a worker was lost", position.repeated
            )
        self.recorder.finish(step, metrics, position, ending=ending, save_again=save_again)

    def terminated(self, step: int) -> TerminatedError:
        """Return the error to end with after SIGTERM."""
        return TerminatedError(f"terminated by SIGTERM at step {step} of {self._last_step(step)}.")

    def _last_step(self, step: int) -> int:
        return step + math.ceil(self.dealer.left / self.batches_a_step)

    def note_progress(self, step: int) -> None:
        """Tell the recorder the step that a ps has just told, and the rest when it publishes."""
        reset_transient_failures(self.coordinator)
        self.recorder.note(step)
        if self.recorder.wants_metrics:
            self.note_work()

    def note_work(self) -> None:
        """Tell the recorder what each worker has done; a round trip."""
        self.recorder.note_work(self.work.read(), queue_depth(self.coordinator))


def begin(job: Job, run: Run, cluster: Cluster) -> Session:
    """Connect, build the model on the ps and restore it; the peers are known to answer."""
    arguments = job.arguments
    remote_context.set_keep_alive(arguments.keep_alive_seconds)
    strategy = _connect(cluster, arguments)
    context_id = remote_context.own()
    run.before_exit = functools.partial(remote_context.close, cluster.peers, context_id)
    job, fence = claim(job, context=context_id)
    if fence is not None:
        # Before this chief's variables need the room.
        remote_context.close(cluster.peers, fence.context_before)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    # Only now: what a user's module makes at import would not survive the connecting.
    task = load(arguments.task)
    workers = tuple(member.name for member in cluster.of(Role.WORKER))
    seed = drawn(arguments.seed)
    context = job.context(seed=seed, replicas=strategy.num_replicas_in_sync)
    dataset = task.dataset("train", context)
    length = measured(task, context, dataset, arguments.steps_per_epoch)
    if arguments.seed is not None:
        tf.keras.utils.set_random_seed(arguments.seed)
    with strategy.scope():
        trained = model.build(task, context, dataset)
        make_step = model.compiled(trained, model.step_function(task, trained, dataset))
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        work = WorkTable(len(workers))
    resumed = resume(job, trained, step, devices=ServerFiles(cluster.of(Role.PS)), fence=fence)
    batches_a_step = len(workers) if arguments.mode is Mode.SYNCHRONOUS else 1
    start = resumed.position(seed, length, batches_a_step)
    context = replace(context, seed=start.seed)
    passes = Passes(start, ENDLESS if length.is_endless else length.of_pass)
    stream = InputStream(task, context, start.seed, dataset.options())
    total = resumed.total(arguments.epochs * length.of_epoch, start.number, batches_a_step)
    is_copied = arguments.mode is Mode.FIT and arguments.fit_input is FitInput.DATASET
    shared = SharedInput(coordinator, stream, passes, workers=len(workers), is_copied=is_copied)
    if stream.is_shared and not passes.are_known and len(workers) > 1:
        _LOG.info(
            "the dataset has no known length: every worker makes the batches of all, and drops "
            "those of others. tf.data.experimental.assert_cardinality has each make its own alone"
        )
    dealer = Dealer(passes, total=total, lanes=shared.lanes)
    logs = tensorboard.Logs(job.checkpoint_dir)
    exporter = Exporter(task, context, dataset, arguments.export)
    recorder = Recorder(
        job, run, resumed, logs, fence, workers=workers, model=trained, exporter=exporter
    )
    last = resumed.step + math.ceil(dealer.left / batches_a_step)
    recorder.start(resumed.step, last, skips_input=start.index > 0)
    return Session(
        job=job,
        run=run,
        strategy=strategy,
        coordinator=coordinator,
        workers=workers,
        task=task,
        context=context,
        model=trained,
        make_step=make_step,
        step=step,
        first_step=resumed.step,
        work=work,
        input=shared,
        dealer=dealer,
        batches_a_step=batches_a_step,
        total=total,
        epoch=length.of_epoch,
        recorder=recorder,
    )


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
