"""Reports a training task: progress, log lines, TensorBoard scalars and checkpoints, when due.

Called by the training loops of every strategy with steps and metrics; never calls them.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tftrainer import tf_types
from tftrainer.config.job import Job
from tftrainer.data.position import Position
from tftrainer.errors import CheckpointUnavailableError, TerminatedError
from tftrainer.runtime.progress import (
    Activity,
    BestCheckpoint,
    Phase,
    SavedCheckpoint,
    Snapshot,
    describe,
)
from tftrainer.runtime.rates import Rate
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.throughput import Throughput, Work
from tftrainer.saving import epoch_end, export, marker
from tftrainer.saving.best import Best
from tftrainer.saving.checkpoints import Checkpoints, found
from tftrainer.saving.export import Exporter
from tftrainer.saving.fence import Fence
from tftrainer.saving.resume import Resumed
from tftrainer.training.divergence import Divergence
from tftrainer.training.epochs import EpochCounts, Epochs
from tftrainer.training.history import History
from tftrainer.training.tensorboard import CHIEF, Logs
from tftrainer.training.validation import Validation

_LOG = logging.getLogger(__name__)
_PUBLISH_SECONDS = 1.0


@dataclass(slots=True)
class _Due:
    publish: float
    line: float
    checkpoint: float


class Recorder:
    """Keeps the times of the last line, scalar and checkpoint."""

    def __init__(
        self,
        job: Job,
        run: Run,
        resumed: Resumed,
        logs: Logs,
        fence: Fence | None,
        *,
        is_chief: bool,
        meet: Callable[[], object],
        workers: Sequence[str],
        model: tf_types.Model,
        epoch_counts: EpochCounts,
        exporter: Exporter,
    ) -> None:
        """`workers` are the names of the tasks whose work is reported; `model` is what is saved.

        `meet` waits for all members, who call it together.
        """
        self._job = job
        self._run = run
        self._resumed = resumed
        self._checkpoints = resumed.checkpoints
        self._logs = logs
        self._fence = fence
        self._is_chief = is_chief
        self._meet = meet
        self._epoch_counts = epoch_counts
        self._divergence = Divergence(model, job.arguments.on_nan)
        self._exporter = exporter
        self._validation: Validation | None = None
        self._validated: Mapping[str, float] = {}
        goal, directory = job.arguments.keep_best, job.checkpoint_dir
        self._best = Best(directory, goal) if directory and goal and is_chief else None
        self._started = self._stepped_at = time.monotonic()
        self._due = _Due(self._started, self._started, math.inf)
        self._rate = Rate(self._started, 0)
        self._throughput = Throughput(workers)
        self._history: History | None = None
        self._step = 0
        self._saved_step: int | None = None
        self._is_reading = False
        self._is_ending = False
        self._marked: tuple[SavedCheckpoint, Mapping[str, float], bool] | None = None

    def start(self, step: int, total_steps: int, *, skips_input: bool) -> None:
        """Training begins, perhaps from a restored checkpoint; the watchdog counts from here.

        `skips_input` says that it goes on in the middle of a pass over the data. What is before it
        is read first, which may take as long as it took to train on it.
        """
        restored, own, last = self._resumed.path, self._resumed.is_own, self._resumed.last
        begun_with = found(restored, step) if restored else None
        now = self._started = self._stepped_at = time.monotonic()
        arguments = self._job.arguments
        self._due = _Due(now, now + arguments.log_seconds, now + arguments.checkpoint_seconds)
        self._rate = Rate(now, step)
        self._step = step
        self._saved_step = step if restored and own else None
        if arguments.history and self._is_chief and self._job.checkpoint_dir is not None:
            self._history = History(self._job.checkpoint_dir, step)
        self._run.progress.update(
            phase=Phase.TRAINING,
            step=step,
            stepped_at=now,
            resumed_step=step if restored else None,
            total_steps=max(step, total_steps),
            metrics=last.metrics if last is not None and last.step <= step else {},
            last_checkpoint=begun_with if own else None,
            best=self._best.read() if self._best and restored and own else None,
        )
        self._run.watchdog.start(now, step, skips_input=skips_input)
        if skips_input:
            self._run.progress.update(activity=Activity.INPUT, active_since=now)
        self._divergence.begin(begun_with)
        self._run.worth_saving = self._checkpoints is not None
        if restored:
            _LOG.info("resumed from checkpoint %s", restored)
        if restored and step >= total_steps:
            _LOG.warning(
                "already complete at step %d, with all epochs that were asked for: nothing to do. "
                "Other arguments have no effect. To train longer, raise --epochs; to train from "
                "the beginning, use another checkpoint directory",
                step,
            )
        else:
            _LOG.info("training from step %d to step %d", step, total_steps)

    @property
    def speed(self) -> float | None:
        """Recent steps per second; None before the first."""
        return self._rate.recent

    def expect(self, total_steps: int) -> None:
        """Record at which step training will probably end."""
        if total_steps != self._run.progress.snapshot.total_steps:
            self._run.progress.update(total_steps=total_steps)

    def note(self, step: int) -> None:
        """Record the current step. Cheap: call it often."""
        now = time.monotonic()
        self._rate.add(now, step)
        if step != self._step:
            self._step, self._stepped_at = step, now
            self._run.watchdog.note(now, step)
            total = self._run.progress.snapshot.total_steps
            self._run.progress.update(
                step=step if total is None else min(step, total),
                stepped_at=now,
                activity=None,
                steps_per_second=self._rate.recent,
            )

    @property
    def trained_seconds(self) -> float:
        """How long it took from the beginning of this process to its last step."""
        return self._stepped_at - self._started

    @property
    def seconds_since_step(self) -> float:
        """How long ago the last step was made, or this process began."""
        return time.monotonic() - self._stepped_at

    def note_reading(self, *, is_reading: bool) -> None:
        """Record whether a worker reads the data up to what it was given: it may take any time."""
        now, progress = time.monotonic(), self._run.progress
        if is_reading:
            self._run.watchdog.pause(now)
            if progress.snapshot.activity is None:
                progress.update(activity=Activity.INPUT, active_since=now)
        elif self._is_reading:
            self._run.watchdog.expect(now)
            progress.update(activity=None, stepped_at=now)
        self._is_reading = is_reading

    def note_work(self, works: Sequence[Work], queue_depth: int | None = None) -> None:
        """Record what each worker has done since the start, and how many functions are queued."""
        now = time.monotonic()
        self._throughput.add(now, works)
        self._run.progress.update(
            examples=self._throughput.examples,
            examples_per_second=self._throughput.recent(now),
            workers=self._throughput.workers(now),
            queue_depth=queue_depth,
        )

    def note_repeated(self, examples: int) -> None:
        """Record how many examples the weights have seen once more, after the loss of workers."""
        self._run.progress.update(repeated_examples=examples)

    def note_loss(self, step: int, loss: float) -> None:
        """Record the loss of one step, in modes in which the chief has it."""
        if self._history is not None:
            self._history.add(step, loss)

    @property
    def wants_metrics(self) -> bool:
        """Whether it is time to publish; reading metrics costs a round trip for each."""
        return time.monotonic() >= self._due.publish

    def publish(self, step: int, metrics: Mapping[str, float]) -> None:
        """Publish the metrics: at /progress, to TensorBoard, and periodically in the log."""
        now = time.monotonic()
        self._due.publish = now + _PUBLISH_SECONDS
        snapshot = self._run.progress.update(metrics={**metrics, **self._validated})
        self._write_logs(step, snapshot)
        if now >= self._due.line:
            self._due.line = now + self._job.arguments.log_seconds
            _LOG.info("%s", describe(snapshot))
        self.judge(step, metrics)

    def judge(self, step: int, metrics: Mapping[str, float]) -> None:
        """Raise DivergedError if the loss is no number any more, and nothing else was asked for."""
        self._divergence.judge_loss(step, metrics, self._last_saved)

    def _write_logs(self, step: int, snapshot: Snapshot) -> None:
        rates = {
            "steps_per_second": snapshot.steps_per_second,
            "examples_per_second": snapshot.examples_per_second,
            "queue_depth": snapshot.queue_depth,
        }
        trained = {n: v for n, v in snapshot.metrics.items() if n not in self._validated}
        self._logs.write(CHIEF, step, {**trained, **_without_none(rates)})
        for worker in snapshot.workers:
            of_worker = {
                "worker_examples_per_second": worker.examples_per_second,
                "worker_input_wait": worker.input_wait,
            }
            # One that trains by itself has a single folder for all.
            role = CHIEF if worker.task == f"{CHIEF}-0" else worker.task
            self._logs.write(role, step, _without_none(of_worker))

    @property
    def checkpoint_due(self) -> bool:
        """Whether it is time to save."""
        return self._checkpoints is not None and time.monotonic() >= self._due.checkpoint

    @property
    def _last_saved(self) -> SavedCheckpoint | None:
        """The newest checkpoint; of finite weights, as no other is saved."""
        saved, directory = self._run.progress.snapshot.last_checkpoint, self._job.checkpoint_dir
        if saved is None or directory is None or self._is_chief:
            return saved
        # Other members write to folders of their own, at the same steps as the chief.
        return replace(saved, path=f"{directory.rstrip('/')}/{saved.path.rpartition('/')[2]}")

    def save(
        self,
        step: int,
        position: Position,
        *,
        ending: Mapping[str, float] | None = None,
        goes_on: bool = False,
    ) -> None:
        """Save a checkpoint of finite weights, unless this step has one or a newer attempt saves.

        `ending` are the metrics of the epoch that ends with it; `goes_on` says that all members are
        needed after it. Raises DivergedError if weights are not finite, and nothing else was asked
        for.
        """
        if self._checkpoints is None:
            return
        with self._written_by_the_chief(goes_on=goes_on), self._fenced():
            if ending is not None and self._own_directory is not None:
                epoch_end.begin(self._own_directory, step, ending)
                self._is_ending = True
            if step != self._saved_step:
                self._save(self._checkpoints, step, position)
                if ending is None and step == self._saved_step:
                    self._finish_ending()
        self._due.checkpoint = time.monotonic() + self._job.arguments.checkpoint_seconds

    @contextmanager
    def _written_by_the_chief(self, *, goes_on: bool) -> Iterator[None]:
        """Expect no step in this block, which all members leave together if training goes on.

        The others are done at once, and would wait for the chief where a step is expected. They do
        not before they exit: they might be gone before the chief has heard that they are here.
        """
        with self._run.busy(Activity.CHECKPOINT):
            yield
            if goes_on:
                self._meet()

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        """Write nothing in this block if a newer attempt has begun.

        Say so of what fails because one has begun meanwhile, too.
        """
        self._check()
        try:
            yield
        except CheckpointUnavailableError:
            # It deletes the parts of a checkpoint that is not complete.
            self._check()
            raise

    def _check(self) -> None:
        if self._fence is not None:
            self._fence.check()

    def _save(self, checkpoints: Checkpoints, step: int, position: Position) -> None:
        if self._history is not None:
            # Before the checkpoint: a start that goes on from it finds all rows up to it.
            self._history.write()
        if self._divergence.may_save(step, self._last_saved):
            counts = self._epoch_counts
            position = replace(position, begun=counts.begun, ended=counts.ended)
            saved = checkpoints.save(step, position)
            self._saved_step = step
            self._run.progress.update(last_checkpoint=saved)
            _LOG.info("saved checkpoint %s", saved.path)

    def evaluates(self, validation: Validation | None) -> bool:
        """Take what validates; return whether end_epoch must be called at all ends of epochs."""
        self._validation = validation
        keeps = self._job.arguments.keep_best is not None
        return self._checkpoints is not None and (validation is not None or keeps)

    def end_epoch(
        self, step: int, position: Position, metrics: Mapping[str, float]
    ) -> Mapping[str, float]:
        """Save, validate and keep the best, as far as it is wanted; return what callbacks see.

        Raises TerminatedError if SIGTERM came meanwhile: the next start does it then.
        """
        self.save(step, position, ending=metrics, goes_on=True)
        saved = self._run.progress.snapshot.last_checkpoint
        # Weights that are not finite are not saved.
        if saved is None or saved.step != step:
            return metrics
        if self._validation is not None:
            validated = self._validation.metrics(saved)
            if validated is None:
                raise TerminatedError(
                    f"terminated by SIGTERM while step {step} was validated, which is saved."
                )
            self._validated = validated
            self._logs.write(CHIEF, step, validated)
        reported = {**metrics, **self._validated}
        self._run.progress.update(metrics=reported, best=self._kept(saved, reported))
        return reported

    def _kept(self, saved: SavedCheckpoint, metrics: Mapping[str, float]) -> BestCheckpoint | None:
        """Keep a checkpoint if it is the best, and return which is."""
        best = self._run.progress.snapshot.best
        if self._job.arguments.keep_best is None:
            return best
        # It may have been validated for long.
        with self._written_by_the_chief(goes_on=True), self._fenced():
            if self._best is not None:
                best = self._best.kept(best, saved, metrics)
        return best

    def _finish_ending(self) -> None:
        """Note that what callbacks did at the end of the epoch is saved, or that all is done."""
        if self._is_ending and self._own_directory is not None:
            epoch_end.finish(self._own_directory)
            self._is_ending = False

    @property
    def _own_directory(self) -> str | None:
        """Where this process alone writes; None for other members than the chief."""
        return self._job.checkpoint_dir if self._is_chief else None

    def save_last(self, step: int, position: Position, *, complete: bool) -> None:
        """Save what training ends with, and that it does; no step is expected any more.

        `complete` says that nothing follows which may change weights, or fail.
        """
        self._run.watchdog.stop()
        self.save(step, position)
        self._mark(complete=complete)

    def finish(
        self,
        step: int,
        metrics: Mapping[str, float],
        position: Position,
        *,
        ending: Epochs | None = None,
        save_again: bool = False,
    ) -> None:
        """Training is complete: last checkpoint, callbacks, marker, export, the last document.

        `ending` is whose callbacks are called, after the checkpoint: one that fails costs nothing,
        and one that changes weights has them saved. `save_again` says that weights may have been
        changed since this step was saved.
        """
        self.judge(step, metrics)
        if metrics:
            self._run.progress.update(metrics={**metrics, **self._validated})
        if ending is not None:
            save_again = ending.has_callbacks
        self.save_last(step, position, complete=not save_again)
        if ending is not None:
            self._end(ending, metrics)
        if save_again:
            self._saved_step = None
            self.save(step, position)
        # Before the export, which takes its time: all steps are made, so none is waited for.
        snapshot = self._run.progress.update(
            step=step,
            # Fewer than was asked for, if a callback ended the training.
            total_steps=step,
            steps_per_second=self._rate.overall,
            examples_per_second=self._throughput.overall,
            queue_depth=None,
        )
        self._write_logs(step, snapshot)
        self._finish_ending()
        # Then the exported model: a chief that is killed goes on from there.
        self._mark(complete=True)
        self._export()
        self._run.progress.update(phase=Phase.DONE)
        _LOG.info("training is complete: %s", describe(snapshot))

    def _mark(self, *, complete: bool) -> None:
        """Write that no step follows the last checkpoint, or that all is done, if it is new."""
        snapshot, directory = self._run.progress.snapshot, self._own_directory
        saved, metrics = snapshot.last_checkpoint, snapshot.metrics
        if saved is None or directory is None or self._marked == (saved, metrics, complete):
            return
        marker.write(
            directory,
            job=self._job.environment.job,
            job_uid=self._job.environment.job_uid,
            last=saved,
            metrics=metrics,
            epochs=self._job.arguments.epochs,
            complete=complete,
        )
        self._marked = saved, metrics, complete

    def _export(self) -> None:
        saved, directory = self._run.progress.snapshot.last_checkpoint, self._own_directory
        if saved is None or directory is None:
            return
        with self._run.busy(Activity.EXPORT):
            self._run.progress.update(model=self._exporter.export(directory, saved))
            best = self._run.progress.snapshot.best
            if best is not None:
                kept = SavedCheckpoint(best.step, best.path, saved.time)
                exported = self._exporter.export(directory, kept, within=export.FOLDER_OF_BEST)
                path = exported.path if exported else None
                self._run.progress.update(best=replace(best, export_path=path))

    def _end(self, ending: Epochs, metrics: Mapping[str, float]) -> None:
        try:
            ending.end(metrics)
        except Exception:
            saved = self._run.progress.snapshot.last_checkpoint
            if saved is not None:
                _LOG.warning(
                    "a callback failed at the end of training. All %d steps are made and saved in "
                    "%s: a restart repeats none of them, and calls the callbacks again",
                    saved.step,
                    saved.path,
                )
            raise


def _without_none(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None}
