"""Trains where all replicas hold the same variables: Mirrored, MultiWorkerMirrored, one process.

Under MultiWorkerMirrored every member runs this same loop and must make the same calls in the same
order, so whatever depends on a clock, a signal or a callback is decided together: how many steps
come next, whether to save, whether to stop.

A member that is lost ends them all, and all resume from the newest checkpoint. Keras's
BackupAndRestore is not used for it: it saves at the ends of epochs, or so many steps apart, where
the trainer's own checkpoints follow the clock, are kept several deep and read by the evaluator.
"""

import logging
import tempfile
import time
from dataclasses import dataclass, replace

import tensorflow as tf

from tftrainer import model, tensorboard, tf_types
from tftrainer.batches import examples_in, time_after, timed_next
from tftrainer.callbacks import Callbacks
from tftrainer.checkpoints import Checkpoints
from tftrainer.cluster import Role
from tftrainer.environment import Strategy
from tftrainer.epochs import Epochs
from tftrainer.errors import (
    BadConfigurationError,
    CheckpointUnavailableError,
    PeersUnavailableError,
    TerminatedError,
    TrainerError,
    one_line,
)
from tftrainer.fence import claim
from tftrainer.job import Job
from tftrainer.pacing import Pace
from tftrainer.peer_errors import lost_peer_error
from tftrainer.recorder import Recorder
from tftrainer.resume import Resumed, resume
from tftrainer.step_losses import returning_loss
from tftrainer.supervisor import Run
from tftrainer.task import load
from tftrainer.throughput import Work

_LOG = logging.getLogger(__name__)
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class _Next:
    """What all members do next."""

    steps: int
    save: bool
    terminate: bool
    """SIGTERM came to one of them."""
    end: bool
    """A callback of one of them wants training to end here."""


def train(job: Job, run: Run) -> None:
    """Train to the end."""
    try:
        _train(job, run)
    except Exception as error:
        # The user's functions may have met the loss of a member; every other TrainerError is final.
        is_final = isinstance(error, TrainerError) and not isinstance(error, BadConfigurationError)
        loss = None if is_final or len(_members(job)) == 1 else lost_peer_error(error)
        if loss is None:
            raise
        raise PeersUnavailableError(
            f"another member of the cluster was lost ({one_line(loss)}). All "
            "members must be restarted; training resumes from the newest checkpoint."
        ) from error


def _train(job: Job, run: Run) -> None:
    arguments, environment = job.arguments, job.environment
    strategy = _strategy(job)
    members = _members(job)
    is_chief = environment.task.role is Role.CHIEF
    number = 0 if is_chief else environment.task.index + 1
    task = load(arguments.task)
    context = job.context(
        replicas=strategy.num_replicas_in_sync, pipelines=len(members), pipeline=number
    )
    dataset = task.dataset("train", context)
    total = model.total_steps(task, dataset, arguments.epochs, arguments.steps_per_epoch)
    if arguments.seed is not None:
        tf.keras.utils.set_random_seed(arguments.seed)
    with strategy.scope():
        trained = model.build(task, context, dataset)
        make_step = model.step_function(task, trained, dataset)
        step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="step",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
    epoch = max(1, total // arguments.epochs)
    callbacks = Callbacks.of(task, context, trained, epochs=arguments.epochs, steps_per_epoch=epoch)
    fence = claim(job) if is_chief else None
    resumed = _resumed(job, trained, step, writes=is_chief)
    logs = tensorboard.Logs(job.checkpoint_dir if is_chief else None)
    recorder = Recorder(job, run, resumed, logs, fence, is_chief=is_chief, workers=members)
    total = resumed.total(total)
    recorder.start(int(step.numpy()), total)
    if arguments.history:
        make_step = returning_loss(trained, make_step)
    loop = _Loop(
        job=job,
        run=run,
        recorder=recorder,
        strategy=strategy,
        members=len(members),
        number=number,
        model=trained,
        make_step=make_step,
        step=step,
        total=total,
        epoch=epoch,
        epochs=Epochs(callbacks, steps=epoch, total=total),
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
            _LOG.info("training on %d replicas", strategy.num_replicas_in_sync)
            return strategy
        case _:
            return tf.distribute.get_strategy()


def _members(job: Job) -> list[str]:
    """Name those that train, the chief first."""
    env = job.environment
    if env.cluster is None or env.strategy is not Strategy.MULTI_WORKER_MIRRORED:
        return [str(env.task)]
    return [member.name for role in (Role.CHIEF, Role.WORKER) for member in env.cluster.of(role)]


def _resumed(
    job: Job, trained: tf_types.Model, step: tf_types.Variable, *, writes: bool
) -> Resumed:
    """Restore, and say where to save.

    All members have to take part in saving, because variables are read together; what the others
    write goes to a folder of their own, and is nothing to anyone.
    """
    resumed = resume(job, trained, step, io_device=None)
    if writes or resumed.checkpoints is None:
        return resumed
    scratch = tempfile.mkdtemp(prefix="tftrainer-")
    unread = Checkpoints(scratch, keep=1, io_device=None, model=trained, step=step)
    return replace(resumed, checkpoints=unread)


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
        number: int,
        model: tf_types.Model,
        make_step: tf_types.Function,
        step: tf_types.Variable,
        total: int,
        epoch: int,
        epochs: Epochs,
        iterator: tf_types.Iterator,
    ) -> None:
        arguments = job.arguments
        self._history = arguments.history
        self._run = run
        self._recorder = recorder
        self._strategy = strategy
        self._members = members
        self._number = number
        self._model = model
        self._step = step
        self._total = total
        self._epoch = epoch
        self._epochs = epochs
        self._iterator = iterator
        self._pace = Pace(seconds=arguments.closure_seconds, fixed=arguments.steps_per_closure)
        self._make_steps = _make_steps(strategy, make_step, step, history=arguments.history)
        self._sum = _sum(strategy)
        # What this member has done since the members last shared it.
        self._work = Work()
        self._works = [Work()] * members

    def run(self) -> None:
        """Make all steps."""
        done = int(self._step.numpy())
        self._refuse_disagreement(done)
        metrics: dict[str, float] = {}
        goes_on, speed = True, None
        self._epochs.begin(done)
        while done < self._total:
            left = self._epoch - done % self._epoch
            self._pace.follow(speed)
            agreed = self._agree(min(self._pace.steps, left, self._total - done), end=not goes_on)
            if agreed.end:
                break
            if agreed.save or agreed.terminate:
                self._recorder.save(done)
            if agreed.terminate:
                raise TerminatedError(f"terminated by SIGTERM at step {done} of {self._total}.")
            if done % self._epoch == 0:
                self._model.reset_metrics()
            began = time.monotonic()
            self._make(agreed.steps, done)
            done += agreed.steps
            self._recorder.note(done)
            speed = agreed.steps / max(time.monotonic() - began, 1e-6)
            metrics = model.metrics(self._model)
            if self._recorder.wants_metrics:
                self._recorder.note_work(self._works)
                self._recorder.publish(done, metrics)
            goes_on = self._epochs.reached(done, metrics)
        self._epochs.end(metrics)
        if self._members > 1:
            # For what each has done since.
            self._agree(0, end=True)
        self._recorder.note_work(self._works)
        self._recorder.finish(done, metrics)

    def _make(self, steps: int, done: int) -> None:
        examples, waiting, busy, losses = self._make_steps(
            self._iterator, tf.constant(steps, tf.int64)
        )
        self._work = Work(
            examples=self._work.examples + int(examples),
            waiting=(self._work.waiting or 0.0) + float(waiting),
            busy=self._work.busy + float(busy),
        )
        if self._members == 1:
            self._works = [self._work]
        for number, loss in enumerate(losses.numpy().tolist(), start=done + 1):
            self._recorder.note_loss(number, loss)

    def _agree(self, steps: int, *, end: bool) -> _Next:
        stop, save = self._run.stop.is_set(), self._recorder.checkpoint_due
        if self._members == 1:
            return _Next(steps, save, stop, end)
        # The chief alone says when to save and how far to go; anyone may have to stop.
        is_chief = self._number == 0
        wish = [steps * is_chief, int(save and is_chief), int(stop), int(end)]
        agreed = self._shared([*wish, *_encoded(self._work, self._number, self._members)])
        self._works = _decoded(agreed[len(wish) :])
        return _Next(agreed[0], agreed[1] > 0, agreed[2] > 0, agreed[3] > 0)

    def _refuse_disagreement(self, step: int) -> None:
        if self._members == 1:
            return
        of_chief = self._shared([step * (self._number == 0)])[0]
        if of_chief != step:
            raise CheckpointUnavailableError(
                f"this member restored step {step}, the chief step {of_chief}: they use different "
                "checkpoint directories. Mount the same volume (ReadWriteMany) in every member."
            )

    def _shared(self, values: list[int]) -> list[int]:
        per_member = self._strategy.num_replicas_in_sync // self._members
        return [int(v) // per_member for v in self._sum(tf.constant(values, tf.int64)).numpy()]


def _encoded(work: Work, number: int, members: int) -> list[int]:
    """Write one member's work as whole numbers that can be added to those of the others."""
    own = [
        work.examples,
        round((work.waiting or 0.0) * _MICROSECONDS),
        round(work.busy * _MICROSECONDS),
    ]
    return [value * (place == number) for place in range(members) for value in own]


def _decoded(values: list[int]) -> list[Work]:
    """Read the sum of what all members wrote."""
    return [
        Work(
            examples=values[at],
            waiting=values[at + 1] / _MICROSECONDS,
            busy=values[at + 2] / _MICROSECONDS,
        )
        for at in range(0, len(values), 3)
    ]


def _make_steps(
    strategy: tf_types.Strategy,
    make_step: tf_types.Function,
    step: tf_types.Variable,
    *,
    history: bool,
) -> tf_types.Function:
    """Make what makes so many steps.

    It returns this member's examples, its seconds of waiting for them and in all, and the losses
    of the steps (float64, one a step; none without `history`).
    """

    @tf.function
    def several(iterator: tf_types.Iterator, steps: tf_types.Tensor) -> tf_types.Tensor:
        began = tf.timestamp()
        made = examples = tf.constant(0, tf.int64)
        waiting = tf.constant(0.0, tf.float64)
        losses = tf.TensorArray(tf.float64, size=0, dynamic_size=True, element_shape=[])
        # What a turn changes is known only when all of the turn is done.
        while made < steps:
            batch, waited = timed_next(iterator, after=made)
            result = strategy.run(make_step, args=(batch,))
            if history:
                loss = strategy.reduce(tf.distribute.ReduceOp.SUM, result, axis=None)
                losses = losses.write(losses.size(), tf.cast(loss, tf.float64))
            step.assign_add(1)
            made += 1
            parts = strategy.experimental_local_results(tf.nest.flatten(batch)[0])
            examples += tf.add_n([examples_in(part) for part in parts])
            waiting += waited
        return examples, waiting, time_after(made) - began, losses.stack()

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
