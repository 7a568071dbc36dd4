"""The chief of a ParameterServer job: schedules steps on workers and keeps what they learn.

Steps are asynchronous. Each scheduled function makes many steps, counted by an int64 variable of
our own on a ps. Now and then the chief lets the workers run dry: only then are metrics reset and
checkpoints written, so that no update is lost between two values that belong together.

A worker's loss is TensorFlow's to repair; its function is run again by another, so a few more
steps than scheduled may be made. What is still to do is read from the step variable whenever the
workers are dry, so the total is met from above by at most those few.
"""

import functools
import logging
import time

import tensorflow as tf

from tftrainer import checkpoints, model, tensorboard, tf_types
from tftrainer.cluster import Cluster, Role
from tftrainer.errors import ParameterServerLostError, TerminatedError, gist
from tftrainer.job import Job
from tftrainer.pacing import steps_per_call
from tftrainer.recorder import Recorder
from tftrainer.supervisor import Run
from tftrainer.task import UserTask, load

_LOG = logging.getLogger(__name__)
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
_POLL_SECONDS = 0.05
_IO_DEVICE = "/job:chief/task:0/device:CPU:0"
# Scheduled functions a worker: one to compute, one to have ready.
_AHEAD = 2
# A function returns by then even if its steps have become slower than those it was sized by.
_LONGEST_CALL = 5.0
# Workers run dry at the end of an epoch, but not much more often than this.
_BETWEEN_DRY_SECONDS = 5.0


def train(job: Job, run: Run, cluster: Cluster) -> None:
    """Train to the end; the peers are known to answer."""
    try:
        _train(job, run, cluster)
    except _LOST as error:
        raise ParameterServerLostError(
            f"a parameter server was lost, and the variables with it ({gist(error)}). "
            "Training resumes from the newest checkpoint when the chief starts again."
        ) from error


def _train(job: Job, run: Run, cluster: Cluster) -> None:
    strategy = _connect(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    # Only now: what a user's module makes at import would not survive the connecting.
    task = load(job.arguments.task)
    context = job.context()
    dataset = task.dataset("train", context)
    arguments = job.arguments
    total = model.total_steps(task, dataset, arguments.epochs, arguments.steps_per_epoch)
    if arguments.seed is not None:
        tf.keras.utils.set_random_seed(arguments.seed)
    with strategy.scope():
        trained = model.build(task, context, dataset)
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    saved, restored = None, None
    if job.checkpoint_dir is None:
        _LOG.warning("no checkpoint directory: what is learned is lost when this process ends")
    else:
        saved = checkpoints.Checkpoints(
            job.checkpoint_dir,
            keep=arguments.keep_checkpoints,
            io_device=_IO_DEVICE,
            model=trained,
            step=step,
        )
        restored = saved.restore()
    scalars = tensorboard.Scalars(tensorboard.directory(job.checkpoint_dir, "chief"))
    recorder = Recorder(job, run, saved, scalars)
    recorder.start(int(step.numpy()), total, restored)
    loop = _Loop(
        job=job,
        run=run,
        recorder=recorder,
        coordinator=coordinator,
        workers=len(cluster.of(Role.WORKER)),
        model=trained,
        step=step,
        total=total,
        call=_call(strategy, trained, step),
        iterator=iter(coordinator.create_per_worker_dataset(_dataset(task, job))),
    )
    loop.run()


def _connect(cluster: Cluster) -> tf_types.Strategy:
    began = time.monotonic()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.addresses()),
        task_type=str(Role.CHIEF),
        task_id=0,
        rpc_layer="grpc",
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    _LOG.info("connected to the cluster in %.1f s", time.monotonic() - began)
    return strategy


def _dataset(task: UserTask, job: Job) -> tf_types.Function:
    # Without AutoGraph, which would convert all that the user's function calls to load data; what
    # the user hands to Dataset.map is converted as always.
    @functools.partial(tf.function, autograph=False)
    def for_one_worker() -> tf_types.Dataset:
        # This graph runs on every worker. With the seed of the model's weights in it, all of them
        # would shuffle alike.
        tf.random.set_seed(None)
        return task.dataset("train", job.context()).repeat().prefetch(tf.data.AUTOTUNE)

    return for_one_worker


def _call(
    strategy: tf_types.Strategy, trained: tf_types.Model, step: tf_types.Variable
) -> tf_types.Function:
    """Make what is scheduled: at most so many steps, and no more once the time is over."""

    @tf.function
    def call(iterator: tf_types.Iterator, steps: tf_types.Tensor) -> None:
        until = tf.timestamp() + _LONGEST_CALL
        for _ in tf.range(steps):
            strategy.run(trained.train_step, args=(next(iterator),))
            step.assign_add(1)
            if tf.timestamp() > until:
                break

    return call


class _Loop:
    """The state of one training: how much is scheduled, and how fast it is done."""

    def __init__(
        self,
        *,
        job: Job,
        run: Run,
        recorder: Recorder,
        coordinator: tf_types.Coordinator,
        workers: int,
        model: tf_types.Model,
        step: tf_types.Variable,
        total: int,
        call: tf_types.Function,
        iterator: tf_types.Iterator,
    ) -> None:
        self._arguments = job.arguments
        self._run = run
        self._recorder = recorder
        self._coordinator = coordinator
        self._workers = workers
        self._model = model
        self._step = step
        self._total = total
        self._call = call
        self._iterator = iterator
        self._steps_a_call = 1
        self._epoch = max(1, total // job.arguments.epochs)

    def run(self) -> None:
        """Make all steps; each turn of the loop begins and ends with idle workers."""
        done = int(self._step.numpy())
        metrics: dict[str, float] = {}
        epoch_end = self._total
        while done < self._total and not self._run.stop.is_set():
            if done >= epoch_end:
                self._model.reset_metrics()
            epoch_end = self._target(done)
            done = self._advance(done, epoch_end)
            metrics = model.metrics(self._model)
            self._recorder.publish(done, metrics)
            if self._recorder.checkpoint_due:
                self._recorder.save(done)
        if done < self._total:
            self._recorder.save(done)
            raise TerminatedError(f"ended by SIGTERM at step {done} of {self._total}.")
        self._recorder.finish(self._total, metrics)

    def _target(self, done: int) -> int:
        """Return the end of an epoch, not so near that running dry costs much."""
        speed = self._recorder.note(done) or 0.0
        enough = done + int(speed * _BETWEEN_DRY_SECONDS)
        epochs = max(done // self._epoch + 1, enough // self._epoch)
        return min(self._total, epochs * self._epoch)

    def _advance(self, start: int, target: int) -> int:
        """Schedule until the target, a due checkpoint or SIGTERM; return when workers are dry."""
        scheduled = now_at = start
        while True:
            closed = self._run.stop.is_set() or self._recorder.checkpoint_due
            ahead = _AHEAD * self._workers * self._steps_a_call
            while not closed and scheduled < target and scheduled - now_at < ahead:
                steps = min(self._steps_a_call, target - scheduled)
                # A tensor, lest every number be traced anew.
                self._coordinator.schedule(
                    self._call, args=(self._iterator, tf.constant(steps, tf.int64))
                )
                scheduled += steps
            dry = self._coordinator.done()
            now_at = int(self._step.numpy())
            speed = self._recorder.note(now_at)
            self._steps_a_call = steps_per_call(
                self._steps_a_call,
                speed and speed / self._workers,
                self._arguments.closure_seconds,
            )
            if self._recorder.wants_metrics and now_at > start:
                self._recorder.publish(now_at, model.metrics(self._model))
            if dry:
                return now_at
            self._run.stop.wait(_POLL_SECONDS) if not closed else time.sleep(_POLL_SECONDS)
