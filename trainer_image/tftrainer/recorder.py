"""What a training task tells the world, and when: progress, log lines, scalars, checkpoints.

Shared by every strategy. It is told steps and metrics; it never asks a strategy for them.
"""

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tftrainer import marker
from tftrainer.checkpoints import Checkpoints, found
from tftrainer.job import Job
from tftrainer.progress import Phase, describe
from tftrainer.rates import StepRate
from tftrainer.supervisor import Run
from tftrainer.tensorboard import Scalars

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
        checkpoints: Checkpoints | None,
        scalars: Scalars,
        *,
        is_chief: bool = True,
    ) -> None:
        self._job = job
        self._run = run
        self._checkpoints = checkpoints
        self._scalars = scalars
        self._is_chief = is_chief
        self._warned: set[str] = set()
        self._started = time.monotonic()
        self._due = _Due(self._started, self._started, math.inf)
        self._rate = StepRate(self._started, 0)
        self._saved_step: int | None = None

    def start(self, step: int, total_steps: int, restored: str | None) -> None:
        """Training begins, perhaps from a restored checkpoint; the watchdog counts from here."""
        now = self._started = time.monotonic()
        arguments = self._job.arguments
        self._due = _Due(now, now + arguments.log_seconds, now + arguments.checkpoint_seconds)
        self._rate = StepRate(now, step)
        self._saved_step = step if restored else None
        self._run.progress.update(
            phase=Phase.TRAINING,
            waiting_for=(),
            step=min(step, total_steps),
            total_steps=total_steps,
            last_checkpoint=found(restored, step) if restored else None,
        )
        self._run.watchdog.start(now, step)
        self._run.worth_saving = self._checkpoints is not None
        if restored:
            _LOG.info("resumed from checkpoint %s", restored)
        _LOG.info("training from step %d to step %d", step, total_steps)

    def note(self, step: int) -> float | None:
        """Note that the step is this now; returns the speed of late. Cheap: call it often."""
        now = time.monotonic()
        self._run.watchdog.note(now, step)
        self._rate.add(now, step)
        total = self._run.progress.snapshot.total_steps
        self._run.progress.update(
            step=step if total is None else min(step, total), steps_per_second=self._rate.recent
        )
        return self._rate.recent

    @property
    def wants_metrics(self) -> bool:
        """Whether it is time to publish; reading metrics costs a round trip for each."""
        return time.monotonic() >= self._due.publish

    def publish(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the metrics: at /progress, to TensorBoard, and now and then in the log."""
        now = time.monotonic()
        self._due.publish = now + _PUBLISH_SECONDS
        snapshot = self._run.progress.update(metrics=dict(metrics))
        rate = {"steps_per_second": snapshot.steps_per_second} if snapshot.steps_per_second else {}
        self._scalars.write(step, {**metrics, **rate})
        for name in sorted(name for name, value in metrics.items() if not math.isfinite(value)):
            if name not in self._warned:
                _LOG.warning("%s is %s at step %d: training diverged", name, metrics[name], step)
                self._warned.add(name)
        if now >= self._due.line:
            self._due.line = now + self._job.arguments.log_seconds
            _LOG.info("%s", describe(snapshot))

    @property
    def checkpoint_due(self) -> bool:
        """Whether it is time to save."""
        return self._checkpoints is not None and time.monotonic() >= self._due.checkpoint

    def save(self, step: int) -> None:
        """Save a checkpoint, unless this step has one."""
        if self._checkpoints is None:
            return
        if step != self._saved_step:
            self._run.watchdog.allow_more(time.monotonic())
            saved = self._checkpoints.save(step)
            self._run.watchdog.expect(time.monotonic())
            self._saved_step = step
            self._run.progress.update(last_checkpoint=saved)
            _LOG.info("checkpoint %s", saved.path)
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
        total = self._run.progress.snapshot.total_steps
        snapshot = self._run.progress.update(
            phase=Phase.DONE,
            step=total,
            steps_per_second=self._rate.overall,
            metrics=dict(metrics) or self._run.progress.snapshot.metrics,
        )
        self._scalars.write(step, snapshot.metrics)
        _LOG.info("training is complete: %s", describe(snapshot))
