"""One training as every strategy has it: set up once, and ended once after SIGTERM.

mirrored and parameter_server.chief say in a Setup what is different under their strategy, begin
with it, and make the steps in loops of their own. The end after the last step is Recorder.finish.
"""

import logging
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.job import Job
from tftrainer.context import Context
from tftrainer.data.input_stream import InputStream
from tftrainer.data.length import measured
from tftrainer.data.position import Length, Position, drawn
from tftrainer.errors import (
    BadConfigurationError,
    CheckpointUnavailableError,
    TerminatedError,
    TrainerError,
)
from tftrainer.runtime.exception_text import headline, summary
from tftrainer.runtime.outages import is_outage
from tftrainer.runtime.supervisor import Run
from tftrainer.saving.checkpoints import Checkpoints, Devices
from tftrainer.saving.export import Exporter
from tftrainer.saving.fence import Fence, claim
from tftrainer.saving.ownership import with_own_directory
from tftrainer.saving.resume import Resumed, resume
from tftrainer.training import tensorboard, validation
from tftrainer.training.epochs import EpochCounts, Epochs
from tftrainer.training.members import Members
from tftrainer.training.recorder import Recorder
from tftrainer.training.step_losses import returning_loss
from tftrainer.user import keras_files, layers, model
from tftrainer.user.callbacks import Callbacks, wanted_by_loop
from tftrainer.user.task import UserTask, load

_LOG = logging.getLogger(__name__)

Reached = Callable[[int], tuple[int, Position]]
"""Returns step and position where so many batches are done, which is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a strategy declares."""

    strategy: tf_types.Strategy
    """Connected, if it has to connect: what a user's module makes at import, and what is drawn at
    random, would not survive it."""
    members: Members
    workers: Sequence[str]
    """Names of the tasks whose work is reported."""
    batches_a_step: int = 1
    """How many batches one step takes, if all workers are there."""
    returns_loss: bool = False
    """Whether a step returns its loss alone, rather than its metrics."""
    fills_gaps: bool = False
    """Whether it trains on batches that are missing before its position, and on these alone."""
    claim_directory: Callable[[Job], tuple[Job, Fence | None]] = claim
    """Called by the chief alone, before there are variables."""
    devices: Devices | None = None
    """What writes and reads the variables, if they are on other processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a training loop starts from: the model is built and restored."""

    job: Job
    run: Run
    setup: Setup
    task: UserTask
    context: Context
    model: tf_types.Model
    make_step: tf_types.Function
    """(batch) -> dict of metrics, or the loss: one step on one replica."""
    step: tf_types.Variable
    """Steps made: int64, no axes."""
    first_step: int
    """The step at which this process began."""
    length: Length
    stream: InputStream
    start: Position
    """Where in the data this process began."""
    unfinished: Mapping[str, float] | None
    """Metrics of the epoch before, if the process before ended while that was validated."""
    total: int
    """Batches that make the training complete, counted from its beginning."""
    is_complete: bool
    """Whether an attempt before was done, but for the export: callbacks are not called again."""
    epoch_counts: EpochCounts
    """Kept up to date by who calls the callbacks; what is saved has it."""
    recorder: Recorder

    @contextmanager
    def traces_a_step(self) -> Iterator[None]:
        """Have what Python raises in this block, where steps are traced, refused as the task's.

        What TensorFlow raises may be of a server that is lost.
        """
        try:
            yield
        except BadConfigurationError as error:
            # AutoGraph has written the lines of all callers before it.
            said = headline(error).removeprefix(f"{type(error).__name__}: ")
            raise BadConfigurationError(said) from error
        except (TrainerError, tf.errors.OpError):
            raise
        except Exception as error:
            if is_outage(error):
                raise
            raise BadConfigurationError(
                f"a step of the model of {self.task.name} fails: {summary(error)}"
            ) from error

    def announce(self, left: int) -> None:
        """Say that training begins, with so many batches left; the watchdog counts from here."""
        last = self.last_step(self.first_step, left)
        self.recorder.start(self.first_step, last, skips_input=self.start.needs_reading)

    def epochs(self, reached: Reached) -> Epochs:
        """Make what calls the user's callbacks, for loops that do it themselves."""
        epoch = self.length.of_epoch
        own = [] if self.is_complete else wanted_by_loop(self.task, self.context)
        callbacks = Callbacks(
            own,
            self.model,
            run=self.run,
            epochs=self.job.arguments.epochs,
            steps_per_epoch=math.ceil(epoch / self.setup.batches_a_step),
            of_any=self.setup.members.any,
        )
        validate = self.end_of_epoch(callbacks.all, reached)
        return Epochs(
            callbacks,
            batches=epoch,
            total=self.total,
            counts=self.epoch_counts,
            start=self.start.number,
            validate=validate,
            unfinished=self.unfinished,
        )

    def end_of_epoch(
        self, callbacks: Sequence[tf_types.Callback], reached: Reached
    ) -> Callable[[int, Mapping[str, float]], Mapping[str, float]] | None:
        """Return what is called with the metrics at all ends of epochs; None if nothing must be."""
        members = self.setup.members
        validated = validation.wanted(
            self.job,
            self.task,
            self.context,
            callbacks,
            run=self.run,
            share=members.floats_of_chief if members.count > 1 else None,
            of_any=members.any,
        )
        if not self.recorder.evaluates(validated):
            return None
        return lambda done, metrics: self.recorder.end_epoch(*reached(done), metrics)

    def terminate(self, step: int, position: Position, *, left: int) -> NoReturn:
        """Save and end, after SIGTERM, with so many batches left."""
        self.recorder.save(step, position)
        last = self.last_step(step, left)
        raise TerminatedError(f"terminated by SIGTERM at step {step} of {last}.")

    def last_step(self, step: int, left: int) -> int:
        """Return the step at which training will end, with so many batches left."""
        return step + math.ceil(left / self.setup.batches_a_step)


def begin(job: Job, run: Run, setup: Setup) -> Session:
    """Load the task, build its model and restore it.

    Members make the same calls in the same order here, too.
    """
    arguments, strategy, members = job.arguments, setup.strategy, setup.members
    keras_files.write_as_such()
    task = load(arguments.task)
    # What the chief draws counts for all: members that shuffle differently share no data out.
    (seed,) = members.of_chief([drawn(arguments.seed)])
    context = job.context(
        replicas=strategy.num_replicas_in_sync,
        pipelines=members.count,
        pipeline=members.number,
        seed=seed,
    )
    dataset = task.dataset("train", context)
    length = measured(
        task,
        context,
        dataset,
        arguments.steps_per_epoch,
        patience=max(arguments.first_step_seconds, arguments.stall_seconds),
        members=members.count,
    )
    _require_same_length(task, length, setup)
    if arguments.seed is not None:
        tf.keras.utils.set_random_seed(arguments.seed)
    # Before the variables, which all members make together: the others then know whose directory
    # it is.
    job, fence = setup.claim_directory(job) if members.is_chief else (job, None)
    with strategy.scope():
        trained = model.build(task, context, dataset)
        make_step = model.step_function(task, trained, dataset)
        if setup.returns_loss:
            # Before it is compiled: the loss leaves what XLA compiles as its result only.
            make_step = returning_loss(trained, make_step)
        make_step = model.compiled(trained, make_step)
        step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="step",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
    if members.count > 1:
        _use_what_the_chief_learned(job, trained, members)
    resumed = _resumed(job, trained, step, setup, fence)
    (of_chief,) = members.of_chief([resumed.step])
    if resumed.step != of_chief:
        raise CheckpointUnavailableError(
            f"this member restored step {resumed.step}, the chief step {of_chief}: they use "
            "different checkpoint directories. Mount the same volume (ReadWriteMany) in every "
            "member."
        )
    start = resumed.position(seed, length, setup.batches_a_step)
    if not setup.fills_gaps:
        start = start.without_gaps(length.of_pass or length.of_epoch)
    # With the seed of the checkpoint, if there is one.
    context = replace(context, seed=start.seed)
    wanted = arguments.epochs * length.of_epoch
    logs = tensorboard.Logs(job.checkpoint_dir if members.is_chief else None)
    run.before_exit.append(logs.close)
    total = resumed.total(wanted, start, setup.batches_a_step)
    # Of fewer epochs than were asked for before, the last one ends once more.
    ended = min(start.ended, (total - 1) // length.of_epoch)
    epoch_counts = EpochCounts(begun=start.begun, ended=ended)
    return Session(
        job=job,
        run=run,
        setup=setup,
        task=task,
        context=context,
        model=trained,
        make_step=make_step,
        step=step,
        first_step=resumed.step,
        length=length,
        stream=InputStream(task, context, start.seed, dataset.options()),
        start=start,
        unfinished=resumed.unfinished,
        total=total,
        is_complete=resumed.is_complete,
        epoch_counts=epoch_counts,
        recorder=Recorder(
            job,
            run,
            resumed,
            logs,
            fence,
            is_chief=members.is_chief,
            meet=members.meet,
            workers=setup.workers,
            model=trained,
            epoch_counts=epoch_counts,
            exporter=Exporter(task, context, dataset, arguments.export, fence),
        ),
    )


def _require_same_length(task: UserTask, length: Length, setup: Setup) -> None:
    """Raise BadConfigurationError if not all members have so many batches: they would disagree.

    All of them raise it, as each knows the lengths of all.
    """
    lengths = setup.members.of_each(length.of_epoch)
    extremes = min(lengths), max(lengths)
    if extremes[0] == extremes[1]:
        return
    found = [f"{each} in {setup.workers[lengths.index(each)]}" for each in extremes]
    raise BadConfigurationError(
        f'dataset("train", context) of {task.name} has not the same number of batches in all '
        f"members: {', '.join(found)}. All of them need the same data: give them the same "
        "files, and leave shard() and input_pipeline out, as the trainer deals the batches out. "
        "A dataset that does so itself has AutoShardPolicy.OFF, and needs --steps-per-epoch."
    )


def _use_what_the_chief_learned(job: Job, trained: tf_types.Model, members: Members) -> None:
    """Have layers that model() has adapted, perhaps to unlike samples, be the same in all members.

    A checkpoint, of which all restore the same, overrules it.
    """
    own = layers.learned(trained)
    of_chief = members.text_of_chief(own)
    if of_chief != own:
        _LOG.info(
            "%s uses what the chief's layers have learned by adapt(): it was adapted to other data",
            job.environment.task,
        )
        layers.use_learned(trained, of_chief)


def _resumed(
    job: Job, trained: tf_types.Model, step: tf_types.Variable, setup: Setup, fence: Fence | None
) -> Resumed:
    """Restore, and say where to save.

    All members have to take part in saving, because variables are read together; what the others
    write goes to a folder of their own, and is nothing to anyone.
    """
    is_chief = setup.members.is_chief
    job = job if is_chief else with_own_directory(job)
    resumed = resume(job, trained, step, devices=setup.devices, fence=fence)
    if is_chief or resumed.checkpoints is None:
        return resumed
    scratch = tempfile.mkdtemp(prefix="tftrainer-")
    unread = Checkpoints(scratch, keep=1, model=trained, step=step)
    return replace(resumed, checkpoints=unread)
