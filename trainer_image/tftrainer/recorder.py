"""Reports a training task: progress, log lines, TensorBoard scalars and checkpoints, when due.

Called by the training loops of every strategy with steps and metrics; never calls them.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tftrainer import marker
from tftrainer.checkpoints import found
from tftrainer.fence import Fence
from tftrainer.history import History
from tftrainer.job import Job
from tftrainer.progress import Phase, Snapshot, describe
from tftrainer.rates import Rate
from tftrainer.resume import Resumed
from tftrainer.supervisor import Run
from tftrainer.tensorboard import CHIEF, Logs
from tftrainer.throughput import Throughput, Work

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
        is_chief: bool = True,
        workers: Sequence[str] = (),
    ) -> None:
        """`workers` are the names of the tasks whose work is reported."""
        self._job = job
        self._run = run
        self._resumed = resumed
        self._checkpoints = resumed.checkpoints
        self._logs = logs
        self._fence = fence
        self._is_chief = is_chief
        self._warned: set[str] = set()
        self._started = time.monotonic()
        self._due = _Due(self._started, self._started, math.inf)
        self._rate = Rate(self._started, 0)
        self._throughput = Throughput(workers)
        self._history: History | None = None
        self._step = 0
        self._saved_step: int | None = None

    def start(self, step: int, total_steps: int) -> None:
        """Training begins, perhaps from a restored checkpoint; the watchdog counts from here."""
        restored = self._resumed.path
        now = self._started = time.monotonic()
        arguments = self._job.arguments
        self._due = _Due(now, now + arguments.log_seconds, now + arguments.checkpoint_seconds)
        self._rate = Rate(now, step)
        self._step = step
        self._saved_step = step if restored else None
        if arguments.history and self._is_chief and self._job.checkpoint_dir is not None:
            self._history = History(self._job.checkpoint_dir, step)
        self._run.progress.update(
            phase=Phase.TRAINING,
            step=min(step, total_steps),
            stepped_at=now,
            resumed_step=step if restored else None,
            total_steps=total_steps,
            last_checkpoint=found(restored, step) if restored else None,
        )
        self._run.watchdog.start(now, step)
        self._run.worth_saving = self._checkpoints is not None
        if restored:
            _LOG.info("resumed from checkpoint %s", restored)
        _LOG.info("training from step %d to step %d", step, total_steps)

    @property
    def speed(self) -> float | None:
        """Recent steps per second; None before the first."""
        return self._rate.recent

    def note(self, step: int) -> None:
        """Record the current step. Cheap: call it often."""
        now = time.monotonic()
        self._rate.add(now, step)
        if step != self._step:
            self._step = step
            self._run.watchdog.note(now, step)
            total = self._run.progress.snapshot.total_steps
            self._run.progress.update(
                step=step if total is None else min(step, total),
                stepped_at=now,
                steps_per_second=self._rate.recent,
            )

    def note_work(self, works: Sequence[Work], queue_depth: int | None = None) -> None:
        """Record what each worker has done since the start, and how many functions are queued."""
        now = time.monotonic()
        self._throughput.add(now, works)
        self._run.progress.update(
            examples=self._throughput.examples,
            examples_per_second=self._throughput.recent,
            workers=self._throughput.workers(now),
            queue_depth=queue_depth,
        )

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
        snapshot = self._run.progress.update(metrics=dict(metrics))
        self._write_logs(step, snapshot)
        for name in sorted(name for name, value in metrics.items() if not math.isfinite(value)):
            if name not in self._warned:
                _LOG.warning(
                    "%s is %s at step %d: training has diverged", name, metrics[name], step
                )
                self._warned.add(name)
        if now >= self._due.line:
            self._due.line = now + self._job.arguments.log_seconds
            _LOG.info("%s", describe(snapshot))

    def _write_logs(self, step: int, snapshot: Snapshot) -> None:
        rates = {
            "steps_per_second": snapshot.steps_per_second,
            "examples_per_second": snapshot.examples_per_second,
            "queue_depth": snapshot.queue_depth,
        }
        self._logs.write(CHIEF, step, {**snapshot.metrics, **_without_none(rates)})
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

    def save(self, step: int) -> None:
        """Save a checkpoint, unless this step has one or a newer attempt saves now."""
        if self._checkpoints is None:
            return
        if self._fence is not None:
            self._fence.check()
        if step != self._saved_step:
            self._run.watchdog.allow_more(time.monotonic())
            if self._history is not None:
                # Before the checkpoint: a start that goes on from it finds all rows up to it.
                self._history.write()
            saved = self._checkpoints.save(step)
            self._run.watchdog.expect(time.monotonic())
            self._saved_step = step
            self._run.progress.update(last_checkpoint=saved)
            _LOG.info("saved checkpoint %s", saved.path)
        self._due.checkpoint = time.monotonic() + self._job.arguments.checkpoint_seconds

    def finish(self, step: int, metrics: Mapping[str, float]) -> None:
        """Training is complete: the last checkpoint, the marker, the last document."""
        self._run.watchdog.stop()
        self.save(step)
        saved = self._run.progress.snapshot.last_checkpoint
        directory = self._job.checkpoint_dir
        if self._is_chief and saved is not None and directory is not None:
            environment = self._job.environment
            marker.write(directory, job=environment.job, job_uid=environment.job_uid, last=saved)
        snapshot = self._run.progress.update(
            phase=Phase.DONE,
            step=step,
            # Fewer than was asked for, if a callback ended the training.
            total_steps=step,
            steps_per_second=self._rate.overall,
            examples_per_second=self._throughput.overall,
            queue_depth=None,
            metrics=dict(metrics) or self._run.progress.snapshot.metrics,
        )
        self._write_logs(step, snapshot)
        _LOG.info("training is complete: %s", describe(snapshot))


def _without_none(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None}
