"""Trains where all replicas hold the same variables: Mirrored, MultiWorkerMirrored, one process.

Under MultiWorkerMirrored every member runs this same loop and must make the same calls in the same
order, so whatever depends on a clock, a signal or a callback is decided together: how many steps
come next, whether to save, whether to stop.

A member that is lost ends them all, and all resume from the newest checkpoint. Keras's
BackupAndRestore is not used for it: it saves at the ends of epochs, or so many steps apart, where
the trainer's own checkpoints follow the clock, are kept several deep and read by the evaluator.
"""

import itertools
import logging
import time
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.cluster import Role
from tftrainer.config.environment import Strategy
from tftrainer.config.job import Job
from tftrainer.data.batches import examples_in, time_after, timed
from tftrainer.data.position import Position
from tftrainer.data.read_batches import ReadBatches
from tftrainer.errors import (
    PERHAPS_OF_A_LOSS,
    CheckpointUnavailableError,
    PeersUnavailableError,
    TrainerError,
    one_line,
)
from tftrainer.peering.peer_errors import lost_peer_error, names_peer
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.threads import threads_of_each
from tftrainer.runtime.throughput import Work
from tftrainer.training.members import Members, decoded
from tftrainer.training.pacing import Pace
from tftrainer.training.session import Session, Setup, begin
from tftrainer.user import model

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
        # Every other TrainerError is final.
        is_final = isinstance(error, TrainerError) and not isinstance(error, PERHAPS_OF_A_LOSS)
        loss = None if is_final or len(_members(job)) == 1 else lost_peer_error(error)
        is_of_storage = isinstance(error, CheckpointUnavailableError)
        if loss is None or (is_of_storage and not names_peer(loss)):
            raise
        raise PeersUnavailableError(
            f"another member of the cluster was lost ({one_line(loss)}). All "
            "members must be restarted; training resumes from the newest checkpoint."
        ) from error


def _train(job: Job, run: Run) -> None:
    strategy = _strategy(job)
    names, task = _members(job), job.environment.task
    number = 0 if task.role is Role.CHIEF else task.index + 1
    session = begin(
        job,
        run,
        Setup(
            strategy=strategy,
            members=Members(strategy, count=len(names), number=number),
            workers=names,
            returns_loss=job.arguments.history,
        ),
    )
    session.announce(max(0, session.total - session.start.number))
    session.recorder.note_repeated(session.start.repeated)
    loop = _Loop(session)
    run.kept_alive.append(loop)
    loop.run()


def _strategy(job: Job) -> tf_types.Strategy:
    cpus = job.arguments.logical_cpus
    if cpus > 1:
        _split_cpu(cpus)
    match job.environment.strategy:
        case Strategy.MULTI_WORKER_MIRRORED:
            return tf.distribute.MultiWorkerMirroredStrategy()
        case Strategy.MIRRORED:
            cpu_names = [f"/cpu:{i}" for i in range(cpus)] if cpus > 1 else None
            strategy = tf.distribute.MirroredStrategy(cpu_names)
            threads = tf.config.threading.get_intra_op_parallelism_threads()
            own = f", {threads} threads for an operation of each" if threads else ""
            _LOG.info("training on %d replicas%s", strategy.num_replicas_in_sync, own)
            return strategy
        case _:
            return tf.distribute.get_strategy()


def _split_cpu(count: int) -> None:
    device = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(device, parts)
    tf.config.threading.set_intra_op_parallelism_threads(threads_of_each(count))


def _members(job: Job) -> list[str]:
    """Name those that train, the chief first."""
    env = job.environment
    if env.cluster is None or env.strategy is not Strategy.MULTI_WORKER_MIRRORED:
        return [str(env.task)]
    return [member.name for role in (Role.CHIEF, Role.WORKER) for member in env.cluster.of(role)]


def _input(session: Session, read: ReadBatches | None) -> tf_types.Dataset:
    stream, start = session.stream, session.start
    if stream.has_own_shards and session.setup.members.count > 1:
        if start.number > 0:
            _LOG.warning(
                "this start reads the dataset from its beginning, in another order if it shuffles: "
                "it has an AutoShardPolicy under which no place in it is known to all members"
            )
        # TensorFlow would take the passes for the files.
        return stream.begun_anew(start.number).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    if stream.options.experimental_distribute.auto_shard_policy is _AUTO:
        # By elements: sharding by files fails where there are fewer files than members.
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
    batches = stream.batches(start.data_pass, start.index, read)
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)


_AUTO = tf.data.experimental.AutoShardPolicy.AUTO


class _Loop:
    """The state of one training."""

    def __init__(self, session: Session) -> None:
        arguments, setup, start = session.job.arguments, session.setup, session.start
        self._session = session
        self._run = session.run
        self._recorder = session.recorder
        self._members = setup.members
        self._model = session.model
        self._passes = session.length.passes(start)
        self._read = None if self._passes.are_known else ReadBatches()
        # Steps that were made before the first batch of these passes, less the batches before it.
        self._offset = session.first_step - start.number
        self._epochs = session.epochs(self._reached)
        batches = _input(session, self._read)
        self._iterator = iter(setup.strategy.experimental_distribute_dataset(batches))
        self._make_steps = _make_steps(session)
        with session.traces_a_step():
            traced = self._make_steps.get_concrete_function(
                self._iterator, tf.TensorSpec([], tf.int64)
            )
        fixed = arguments.steps_per_closure
        if _gathers(traced):
            _LOG.info(
                "steps are made one at a time, because replicas gather gradients, such as those of "
                "embeddings, whose size may change from step to step"
            )
            fixed = 1
        self._pace = Pace(seconds=arguments.closure_seconds, fixed=fixed)
        # What this member has done since the members last shared it.
        self._work = Work()
        self._works = [Work()] * setup.members.count

    def run(self) -> None:
        """Make all steps; a batch of all replicas together is a step."""
        session, epoch = self._session, self._session.length.of_epoch
        done, total = session.start.number, session.total
        metrics: dict[str, float] = {}
        speed = None
        goes_on = self._epochs.begin(done)
        while done < total:
            left = epoch - done % epoch
            self._pace.follow(speed)
            agreed = self._agree(min(self._pace.steps, left, total - done), end=not goes_on)
            if agreed.end:
                break
            step, position = self._reached(done)
            if agreed.terminate:
                session.terminate(step, position, left=total - done)
            if agreed.save:
                self._recorder.save(step, position, goes_on=True)
            self._epochs.before_steps(done)
            if done % epoch == 0:
                self._model.reset_metrics()
            began = time.monotonic()
            self._make(agreed.steps, step)
            done, step = done + agreed.steps, step + agreed.steps
            self._recorder.note(step)
            speed = agreed.steps / max(time.monotonic() - began, 1e-6)
            metrics = model.metrics(self._model)
            # All members, at the same step: their metrics are one sum.
            self._recorder.judge(step, metrics)
            if self._recorder.wants_metrics:
                self._recorder.note_work(self._works)
                self._recorder.publish(step, metrics)
            goes_on = self._epochs.reached(done, metrics)
        if self._members.count > 1:
            # For what each has done since.
            self._agree(0, end=True)
        self._recorder.note_work(self._works)
        step, position = self._reached(done)
        self._recorder.finish(step, metrics, position, ending=self._epochs)

    def _reached(self, done: int) -> tuple[int, Position]:
        last = None
        if self._read is not None:
            last = self._passes.read_place(done - 1, self._read.of_passes())
        return done + self._offset, self._passes.position(done, last=last)

    def _make(self, steps: int, done: int) -> None:
        examples, waiting, busy, losses = self._make_steps(
            self._iterator, tf.constant(steps, tf.int64)
        )
        self._work += Work(int(examples), float(waiting), float(busy))
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


def _gathers(steps: tf_types.Function) -> bool:
    """Whether replicas gather something in a step; `steps` is a concrete function.

    So they do with gradients of embeddings, of which each word is a row. TensorFlow expects the
    same size in all steps of a function, and takes another one for replicas that disagree.
    """
    graph = steps.graph.as_graph_def()
    nodes = itertools.chain(graph.node, *(each.node_def for each in graph.library.function))
    return any(node.op in _GATHERING for node in nodes)


_GATHERING = frozenset({"CollectiveGather", "CollectiveGatherV2"})


def _make_steps(session: Session) -> tf_types.Function:
    """Make what makes so many steps.

    It returns this member's examples, its seconds of waiting for them and in all, and the losses
    of the steps (float64, one a step; none without --history).
    """
    strategy, history = session.setup.strategy, session.setup.returns_loss
    make_step, step = session.make_step, session.step

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
            # Where no batch comes, nothing was trained.
            with tf.control_dependencies([waited]):
                step.assign_add(1)
            made += 1
            parts = strategy.experimental_local_results(tf.nest.flatten(batch)[0])
            examples += tf.add_n([examples_in(part) for part in parts])
            waiting += waited
        return examples, waiting, time_after(made) - began, losses.stack()

    return several
