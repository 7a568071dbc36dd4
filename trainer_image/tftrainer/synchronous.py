"""Trains where all replicas make every step together: MultiWorkerMirrored, Mirrored, or alone.

Under MultiWorkerMirrored every member runs this same loop and must make the same calls in the same
order, so whatever depends on a clock or a signal is decided by the chief and shared: how many
steps come next, whether to save, whether to stop.
"""

import logging
import tempfile
import time
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import checkpoints, model, tensorboard, tf_types
from tftrainer.cluster import Role
from tftrainer.environment import Strategy
from tftrainer.errors import (
    CheckpointUnavailableError,
    PeersUnavailableError,
    TerminatedError,
    gist,
)
from tftrainer.job import Job
from tftrainer.pacing import steps_per_call
from tftrainer.recorder import Recorder
from tftrainer.supervisor import Run
from tftrainer.task import load

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Next:
    """What all members do next."""

    steps: int
    save: bool
    stop: bool


def train(job: Job, run: Run) -> None:
    """Train to the end."""
    try:
        _train(job, run)
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        raise PeersUnavailableError(
            f"another member of the cluster was lost ({gist(error)}). All "
            "members have to start again; training resumes from the newest checkpoint."
        ) from error


def _train(job: Job, run: Run) -> None:
    arguments, environment = job.arguments, job.environment
    strategy = _strategy(job)
    members = len(environment.cluster.members) if environment.cluster else 1
    members = members if environment.strategy is Strategy.MULTI_WORKER_MIRRORED else 1
    is_chief = environment.task.role is Role.CHIEF
    task = load(arguments.task)
    context = job.context(
        replicas=strategy.num_replicas_in_sync,
        pipelines=members,
        pipeline=0 if is_chief else environment.task.index + 1,
    )
    dataset = task.dataset("train", context)
    total = model.total_steps(task, dataset, arguments.epochs, arguments.steps_per_epoch)
    if arguments.seed is not None:
        tf.keras.utils.set_random_seed(arguments.seed)
    with strategy.scope():
        trained = model.build(task, context, dataset)
        step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="step",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
    saved, restored = None, None
    if job.checkpoint_dir is None:
        _LOG.warning("no checkpoint directory: what is learned is lost when this process ends")
    else:
        saved, restored = _restored(job, trained, step, writes=is_chief)
    logs = tensorboard.directory(job.checkpoint_dir if is_chief else None, "chief")
    recorder = Recorder(job, run, saved, tensorboard.Scalars(logs), is_chief=is_chief)
    recorder.start(int(step.numpy()), total, restored)
    loop = _Loop(
        job=job,
        run=run,
        recorder=recorder,
        strategy=strategy,
        members=members,
        is_chief=is_chief,
        model=trained,
        step=step,
        total=total,
        iterator=iter(strategy.experimental_distribute_dataset(_endless(dataset))),
    )
    loop.run()


def _strategy(job: Job) -> tf_types.Strategy:
    cpus = job.arguments.logical_cpus
    if cpus > 1:
        device = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * cpus
        tf.config.set_logical_device_configuration(device, parts)
    match job.environment.strategy:
        case Strategy.MULTI_WORKER_MIRRORED:
            return tf.distribute.MultiWorkerMirroredStrategy()
        case Strategy.MIRRORED:
            cpu_names = [f"/cpu:{i}" for i in range(cpus)] if cpus > 1 else None
            strategy = tf.distribute.MirroredStrategy(cpu_names)
            _LOG.info("mirrored on %d devices", strategy.num_replicas_in_sync)
            return strategy
        case _:
            return tf.distribute.get_strategy()


def _restored(
    job: Job,
    trained: tf_types.Model,
    step: tf_types.Variable,
    *,
    writes: bool,
) -> tuple[checkpoints.Checkpoints, str | None]:
    """Checkpoints, and which one was restored.

    All members have to take part in saving, because variables are read together; what the others
    write goes to a folder of their own, and is nothing to anyone.
    """
    source = str(job.checkpoint_dir)
    parts = {"model": trained, "step": step, "keep": job.arguments.keep_checkpoints}
    saved = checkpoints.Checkpoints(source, io_device=None, **parts)
    restored = saved.restore()
    if not writes:
        scratch = tempfile.mkdtemp(prefix="tftrainer-")
        saved = checkpoints.Checkpoints(scratch, io_device=None, **{**parts, "keep": 1})
    return saved, restored


def _endless(dataset: tf_types.Dataset) -> tf_types.Dataset:
    options = tf.data.Options()
    if dataset.options().experimental_distribute.auto_shard_policy is _AUTO:
        # By elements: sharding by files fails where there are fewer files than members.
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
    return dataset.repeat().prefetch(tf.data.AUTOTUNE).with_options(options)


_AUTO = tf.data.experimental.AutoShardPolicy.AUTO


class _Loop:
    """The state of one training."""

    def __init__(
        self,
        *,
        job: Job,
        run: Run,
        recorder: Recorder,
        strategy: tf_types.Strategy,
        members: int,
        is_chief: bool,
        model: tf_types.Model,
        step: tf_types.Variable,
        total: int,
        iterator: tf_types.Iterator,
    ) -> None:
        self._arguments = job.arguments
        self._run = run
        self._recorder = recorder
        self._strategy = strategy
        self._members = members
        self._is_chief = is_chief
        self._model = model
        self._step = step
        self._total = total
        self._iterator = iterator
        self._epoch = max(1, total // job.arguments.epochs)
        self._several = _several(strategy, model, step)
        self._sum = _sum(strategy)

    def run(self) -> None:
        """Make all steps."""
        done = int(self._step.numpy())
        self._refuse_disagreement(done)
        metrics: dict[str, float] = {}
        steps_a_call, speed = 1, None
        while done < self._total:
            left = self._epoch - done % self._epoch
            steps_a_call = steps_per_call(steps_a_call, speed, self._arguments.closure_seconds)
            agreed = self._agree(min(steps_a_call, left, self._total - done))
            if agreed.save or agreed.stop:
                self._recorder.save(done)
            if agreed.stop:
                raise TerminatedError(f"ended by SIGTERM at step {done} of {self._total}.")
            if done % self._epoch == 0:
                self._model.reset_metrics()
            began = time.monotonic()
            self._several(self._iterator, tf.constant(agreed.steps, tf.int64))
            done += agreed.steps
            self._recorder.note(done)
            speed = agreed.steps / max(time.monotonic() - began, 1e-6)
            metrics = model.metrics(self._model)
            if self._recorder.wants_metrics:
                self._recorder.publish(done, metrics)
        self._recorder.finish(done, metrics)

    def _agree(self, steps: int) -> _Next:
        stop, save = self._run.stop.is_set(), self._recorder.checkpoint_due
        if self._members == 1:
            return _Next(steps, save, stop)
        # The chief alone says when to save and how far to go; anyone may have to stop.
        wish = [steps * self._is_chief, int(save and self._is_chief), int(stop)]
        agreed_steps, agreed_save, agreed_stop = self._shared(wish)
        return _Next(agreed_steps, agreed_save > 0, agreed_stop > 0)

    def _refuse_disagreement(self, step: int) -> None:
        if self._members == 1:
            return
        of_chief = self._shared([step * self._is_chief])[0]
        if of_chief != step:
            raise CheckpointUnavailableError(
                f"this member restored step {step}, the chief step {of_chief}: they read different "
                "checkpoint directories. Mount the same volume (ReadWriteMany) in every member."
            )

    def _shared(self, values: list[int]) -> list[int]:
        per_member = self._strategy.num_replicas_in_sync // self._members
        return [int(v) // per_member for v in self._sum(tf.constant(values, tf.int64)).numpy()]


def _several(
    strategy: tf_types.Strategy, trained: tf_types.Model, step: tf_types.Variable
) -> tf_types.Function:
    @tf.function
    def several(iterator: tf_types.Iterator, steps: tf_types.Tensor) -> None:
        for _ in tf.range(steps):
            strategy.run(trained.train_step, args=(next(iterator),))
            step.assign_add(1)

    return several


def _sum(strategy: tf_types.Strategy) -> tf_types.Function:
    def in_replica(values: tf_types.Tensor) -> tf_types.Tensor:
        replica = tf.distribute.get_replica_context()
        # The identity places the values on this replica's device, where they are summed.
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))

    @tf.function
    def total(values: tf_types.Tensor) -> tf_types.Tensor:
        result = strategy.run(in_replica, args=(values,))
        return strategy.experimental_local_results(result)[0]

    return total
