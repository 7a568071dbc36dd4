"""Sets up what every mode starts from: servers connected, model built on the ps and restored."""

import functools
import logging
import random
import time
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import model, remote_context, tensorboard, tf_types
from tftrainer.arguments import Mode
from tftrainer.callbacks import Callbacks
from tftrainer.cluster import Cluster, Role
from tftrainer.context import Context
from tftrainer.epochs import Epochs
from tftrainer.fence import claim
from tftrainer.job import Job
from tftrainer.parameter_server.coordinator_internals import queue_depth, reset_transient_failures
from tftrainer.parameter_server.work import WorkTable
from tftrainer.recorder import Recorder
from tftrainer.resume import resume
from tftrainer.supervisor import Run
from tftrainer.task import UserTask, load

_LOG = logging.getLogger(__name__)
_IO_DEVICE = "/job:chief/task:0/device:CPU:0"
_LARGEST_SEED = 2**31 - 1


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
    seed: int | None
    """What the workers shuffle with; None if each has to do it in its own way."""
    model: tf_types.Model
    make_step: tf_types.Function
    """(batch) -> dict of metrics: one step on one replica."""
    step: tf_types.Variable
    """Steps made: int64, no axes, on a ps."""
    work: WorkTable
    total: int
    """Steps that make the training complete."""
    epoch: int
    """Steps of an epoch."""
    recorder: Recorder

    def epochs(self) -> Epochs:
        """Make what tells the user's callbacks, for the modes that call them themselves."""
        callbacks = Callbacks.of(
            self.task,
            self.context,
            self.model,
            epochs=self.job.arguments.epochs,
            steps_per_epoch=self.epoch,
        )
        return Epochs(callbacks, steps=self.epoch, total=self.total)

    def dataset(self) -> tf_types.Dataset:
        """Make the endless dataset of a worker; every mode but synchronous has one a worker."""
        return self.task.dataset("train", self.context).repeat().prefetch(tf.data.AUTOTUNE)

    def dataset_function(self) -> tf_types.Function:
        """Return the tf.function that makes the endless dataset of the worker it runs on."""

        # Without AutoGraph, which would convert all that the user's function calls to load data;
        # what the user hands to Dataset.map is converted as always.
        @functools.partial(tf.function, autograph=False)
        def for_one_worker() -> tf_types.Dataset:
            # This graph runs on every worker. With the seed of the model's weights in it, all of
            # them would shuffle alike, which only a mode that shares batches out wants.
            tf.random.set_seed(self.seed)
            if not self.shares_batches:
                return self.dataset()
            endless = self.task.dataset("train", self.context).repeat()
            number = tf.distribute.coordinator.experimental_get_current_worker_index()
            return endless.shard(len(self.workers), number).prefetch(tf.data.AUTOTUNE)

        return for_one_worker

    @property
    def shares_batches(self) -> bool:
        """Whether the workers read one dataset together, each a part of its batches."""
        return self.job.arguments.mode is Mode.SYNCHRONOUS

    def note_progress(self, step: int) -> None:
        """Tell the recorder the step that a ps has just told, and the rest when it publishes."""
        reset_transient_failures(self.coordinator)
        self.recorder.note(step)
        if self.recorder.wants_metrics:
            self.recorder.note_work(self.work.read(), queue_depth(self.coordinator))


def begin(job: Job, run: Run, cluster: Cluster) -> Session:
    """Connect, build the model on the ps and restore it; the peers are known to answer."""
    arguments = job.arguments
    remote_context.set_keep_alive(arguments.keep_alive_seconds)
    strategy = _connect(cluster, arguments.partition_bytes)
    context_id = remote_context.own()
    run.before_exit = functools.partial(remote_context.close, cluster.peers, context_id)
    fence = claim(job, context=context_id)
    if fence is not None:
        # Before this chief's variables need the room.
        remote_context.close(cluster.peers, fence.context_before)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    # Only now: what a user's module makes at import would not survive the connecting.
    task = load(arguments.task)
    workers = tuple(member.name for member in cluster.of(Role.WORKER))
    synchronous = arguments.mode is Mode.SYNCHRONOUS
    seed = _drawn(arguments.seed) if synchronous else None
    context = job.context(seed=seed)
    dataset = task.dataset("train", context)
    batches = model.total_steps(task, dataset, 1, arguments.steps_per_epoch)
    epoch = max(1, batches // len(workers)) if synchronous else batches
    if arguments.seed is not None:
        tf.keras.utils.set_random_seed(arguments.seed)
    with strategy.scope():
        trained = model.build(task, context, dataset)
        make_step = model.step_function(task, trained, dataset)
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        work = WorkTable(len(workers))
    resumed = resume(job, trained, step, io_device=_IO_DEVICE)
    total = resumed.total(arguments.epochs * epoch)
    logs = tensorboard.Logs(job.checkpoint_dir)
    recorder = Recorder(job, run, resumed, logs, fence, workers=workers)
    recorder.start(int(step.numpy()), total)
    return Session(
        job=job,
        run=run,
        strategy=strategy,
        coordinator=coordinator,
        workers=workers,
        task=task,
        context=context,
        seed=seed,
        model=trained,
        make_step=make_step,
        step=step,
        work=work,
        total=total,
        epoch=epoch,
        recorder=recorder,
    )


def _connect(cluster: Cluster, partition_bytes: int) -> tf_types.Strategy:
    began = time.monotonic()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.addresses()),
        task_type=str(Role.CHIEF),
        task_id=0,
        rpc_layer="grpc",
    )
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=_partitioner(cluster, partition_bytes)
    )
    _LOG.info("connected to the cluster in %.1f s", time.monotonic() - began)
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


def _drawn(seed: int | None) -> int:
    return random.randint(0, _LARGEST_SEED) if seed is None else seed  # noqa: S311 -- no secret
