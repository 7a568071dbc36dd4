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
from collections.abc import Mapping
from dataclasses import dataclass, replace

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.cluster import Role
from tftrainer.config.environment import Strategy
from tftrainer.config.job import Job
from tftrainer.data.batches import examples_in, time_after, timed
from tftrainer.data.input_stream import InputStream
from tftrainer.data.length import measured
from tftrainer.data.position import Passes, Position, drawn
from tftrainer.errors import (
    OF_USERS_CODE,
    CheckpointUnavailableError,
    PeersUnavailableError,
    TerminatedError,
    TrainerError,
    one_line,
)
from tftrainer.peering.peer_errors import lost_peer_error
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.throughput import Work
from tftrainer.saving.checkpoints import Checkpoints
from tftrainer.saving.export import Exporter
from tftrainer.saving.fence import Fence, claim
from tftrainer.saving.ownership import with_own_directory
from tftrainer.saving.resume import Resumed, resume
from tftrainer.training import tensorboard, validation
from tftrainer.training.epochs import Epochs
from tftrainer.training.members import Members, decoded
from tftrainer.training.pacing import Pace
from tftrainer.training.recorder import Recorder
from tftrainer.training.step_losses import returning_loss
from tftrainer.user import model
from tftrainer.user.callbacks import Callbacks
from tftrainer.user.task import load

_LOG = logging.getLogger(__name__)


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
        is_final = isinstance(error, TrainerError) and not isinstance(error, OF_USERS_CODE)
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
    run.kept_alive.append(strategy)
    members = _members(job)
    is_chief = environment.task.role is Role.CHIEF
    number = 0 if is_chief else environment.task.index + 1
    together = Members(strategy, count=len(members), number=number)
    task = load(arguments.task)
    # What the chief draws counts for all: members that shuffle differently share no data out.
    (seed,) = together.of_chief([drawn(arguments.seed)])
    context = job.context(
        replicas=strategy.num_replicas_in_sync,
        pipelines=len(members),
        pipeline=number,
        seed=seed,
    )
    dataset = task.dataset("train", context)
    length = measured(task, context, dataset, arguments.steps_per_epoch)
    if arguments.seed is not None:
        tf.keras.utils.set_random_seed(arguments.seed)
    # Before the variables, which all members make together: the others then know whose directory
    # it is.
    job, fence = claim(job) if is_chief else (job, None)
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
    callbacks = Callbacks.of(
        task,
        context,
        trained,
        run=run,
        epochs=arguments.epochs,
        steps_per_epoch=length.of_epoch,
    )
    resumed = _resumed(job, trained, step, fence, writes=is_chief)
    _refuse_disagreement(resumed.step, together.of_chief([resumed.step])[0])
    start = resumed.position(seed, length)
    logs = tensorboard.Logs(job.checkpoint_dir if is_chief else None)
    recorder = Recorder(
        job,
        run,
        resumed,
        logs,
        fence,
        is_chief=is_chief,
        workers=members,
        model=trained,
        exporter=Exporter(task, context, dataset, arguments.export),
    )
    total = resumed.total(arguments.epochs * length.of_epoch, start.number, 1)
    recorder.start(
        resumed.step, resumed.step + max(0, total - start.number), skips_input=start.index > 0
    )
    if arguments.history:
        make_step = returning_loss(trained, make_step)
    with strategy.scope():
        make_step = model.compiled(trained, make_step)
    validated = validation.wanted(
        job,
        task,
        context,
        callbacks.all,
        run=run,
        share=together.floats_of_chief if together.count > 1 else None,
    )
    ends_count = recorder.evaluates(validated)
    # Where a pass has no known length, the epochs count for passes.
    passes = Passes(start, length.of_pass or length.of_epoch)
    # Steps that were made before the first batch of these passes, less the batches before it.
    offset = resumed.step - start.number

    def end_epoch(done: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        return recorder.end_epoch(done + offset, passes.position(done), metrics)

    stream = InputStream(task, replace(context, seed=start.seed), start.seed, dataset.options())
    loop = _Loop(
        job=job,
        run=run,
        recorder=recorder,
        strategy=strategy,
        members=together,
        model=trained,
        make_step=make_step,
        step=step,
        passes=passes,
        offset=offset,
        total=total,
        epochs=Epochs(
            callbacks,
            batches=length.of_epoch,
            total=total,
            validate=end_epoch if ends_count else None,
        ),
        iterator=iter(strategy.experimental_distribute_dataset(_input(stream, start))),
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
    job: Job,
    trained: tf_types.Model,
    step: tf_types.Variable,
    fence: Fence | None,
    *,
    writes: bool,
) -> Resumed:
    """Restore, and say where to save.

    All members have to take part in saving, because variables are read together; what the others
    write goes to a folder of their own, and is nothing to anyone.
    """
    job = job if writes else with_own_directory(job)
    resumed = resume(job, trained, step, fence=fence)
    if writes or resumed.checkpoints is None:
        return resumed
    scratch = tempfile.mkdtemp(prefix="tftrainer-")
    unread = Checkpoints(scratch, keep=1, model=trained, step=step)
    return replace(resumed, checkpoints=unread)


def _input(stream: InputStream, start: Position) -> tf_types.Dataset:
    options = tf.data.Options()
    if stream.options.experimental_distribute.auto_shard_policy is _AUTO:
        # By elements: sharding by files fails where there are fewer files than members.
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
    if stream.is_by_file:
        # TensorFlow would take the passes for the files.
        return stream.repeated().prefetch(tf.data.AUTOTUNE)
    batches = stream.batches(start.data_pass, start.index)
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)


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
        members: Members,
        model: tf_types.Model,
        make_step: tf_types.Function,
        step: tf_types.Variable,
        passes: Passes,
        offset: int,
        total: int,
        epochs: Epochs,
        iterator: tf_types.Iterator,
    ) -> None:
        arguments = job.arguments
        self._history = arguments.history
        self._run = run
        self._recorder = recorder
        self._members = members
        self._model = model
        self._step = step
        self._passes = passes
        self._offset = offset
        self._total = total
        self._epochs = epochs
        self._iterator = iterator
        self._pace = Pace(seconds=arguments.closure_seconds, fixed=arguments.steps_per_closure)
        self._make_steps = _make_steps(strategy, make_step, step, history=arguments.history)
        # What this member has done since the members last shared it.
        self._work = Work()
        self._works = [Work()] * members.count

    def run(self) -> None:
        """Make all steps; a batch of all replicas together is a step."""
        done, epoch = self._passes.start.number, self._passes.start.epoch_batches
        metrics: dict[str, float] = {}
        goes_on, speed = True, None
        self._epochs.begin(done)
        while done < self._total:
            left = epoch - done % epoch
            self._pace.follow(speed)
            agreed = self._agree(min(self._pace.steps, left, self._total - done), end=not goes_on)
            if agreed.end:
                break
            step = done + self._offset
            if agreed.save or agreed.terminate:
                self._recorder.save(step, self._passes.position(done))
            if agreed.terminate:
                last = self._total + self._offset
                raise TerminatedError(f"terminated by SIGTERM at step {step} of {last}.")
            if done % epoch == 0:
                self._model.reset_metrics()
            began = time.monotonic()
            self._make(agreed.steps, step)
            done += agreed.steps
            self._recorder.note(done + self._offset)
            speed = agreed.steps / max(time.monotonic() - began, 1e-6)
            metrics = model.metrics(self._model)
            # All members, at the same step: their metrics are one sum.
            self._recorder.judge(done + self._offset, metrics)
            if self._recorder.wants_metrics:
                self._recorder.note_work(self._works)
                self._recorder.publish(done + self._offset, metrics)
            goes_on = self._epochs.reached(done, metrics)
        if self._members.count > 1:
            # For what each has done since.
            self._agree(0, end=True)
        self._recorder.note_work(self._works)
        step, position = done + self._offset, self._passes.position(done)
        self._recorder.finish(step, metrics, position, ending=self._epochs)

    def _make(self, steps: int, done: int) -> None:
        examples, waiting, busy, losses = self._make_steps(
            self._iterator, tf.constant(steps, tf.int64)
        )
        self._work = Work(
            examples=self._work.examples + int(examples),
            waiting=(self._work.waiting or 0.0) + float(waiting),
            busy=self._work.busy + float(busy),
        )
        if self._members.count == 1:
            self._works = [self._work]
        for number, loss in enumerate(losses.numpy().tolist(), start=done + 1):
            self._recorder.note_loss(number, loss)

    def _agree(self, steps: int, *, end: bool) -> _Next:
        stop, save = self._run.stop.is_set(), self._recorder.checkpoint_due
        if self._members.count == 1:
            return _Next(steps, save, stop, end)
        # The chief alone says when to save and how far to go; anyone may have to stop.
        is_chief = self._members.is_chief
        wish = [steps * is_chief, int(save and is_chief), int(stop), int(end)]
        agreed = self._members.sum([*wish, *self._members.encoded(self._work)])
        self._works = decoded(agreed[len(wish) :])
        return _Next(agreed[0], agreed[1] > 0, agreed[2] > 0, agreed[3] > 0)


def _refuse_disagreement(step: int, of_chief: int) -> None:
    if of_chief != step:
        raise CheckpointUnavailableError(
            f"this member restored step {step}, the chief step {of_chief}: they use different "
            "checkpoint directories. Mount the same volume (ReadWriteMany) in every member."
        )


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
            batch, waited = timed(iterator.get_next, after=made)
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
