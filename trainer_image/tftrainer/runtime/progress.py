"""Progress of this task: an immutable snapshot, replaced as a whole. No TensorFlow, no sockets.

The document is the contract's (tests/contract/progress.json); the operator reads it at /progress
and, after a good end, from the termination log.

Times that have to be exact are of the monotonic clock; ages are counted when the document is made.
"""

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tftrainer.config.cluster import Role
from tftrainer.runtime.throughput import WorkerRate

VERSION = 1
_MOST_UNREACHABLE = 32
_MOST_WORKERS = 256
# Shorter ones would only make the status flicker.
_ACTIVITY_SECONDS = 10.0


class Phase(StrEnum):
    """What the task is doing."""

    WAITING = "waiting"
    TRAINING = "training"
    EVALUATING = "evaluating"
    DONE = "done"


class Activity(StrEnum):
    """What the task does instead of steps, for as long as it takes."""

    CALLBACKS = "callbacks"
    CHECKPOINT = "checkpoint"
    INPUT = "input"
    """Reads what an earlier process trained on, up to the batch at which training goes on."""
    EXPORT = "export"
    VALIDATION = "validation"

    @property
    def has_a_limit(self) -> bool:
        """Whether it is the trainer's own, rather than as long as the user's code and data take."""
        return self in (Activity.CHECKPOINT, Activity.EXPORT)


class Cause(StrEnum):
    """Why a peer is unreachable; the operator decides by it, so it is part of the contract."""

    NOT_ASKED = "NotAsked"
    """No probe of this peer has completed yet."""
    NOT_RESOLVED = "NotResolved"
    """Its host name cannot be resolved to an address."""
    REFUSED = "Refused"
    """Its host refused the connection: nothing listens on the port."""
    TIMED_OUT = "TimedOut"
    """It did not accept a connection, or did not answer on one, in time."""
    FAILED = "Failed"
    """The probe failed in another way."""

    @property
    def is_evidence(self) -> bool:
        """Whether it says something about the peer, rather than about the chief or the DNS."""
        return self not in (Cause.NOT_ASKED, Cause.NOT_RESOLVED)


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """One complete checkpoint."""

    step: int
    path: str
    time: datetime


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """The trained model, in forms that can be served."""

    step: int
    path: str
    """The folder that holds all of them."""
    formats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The best checkpoint by one metric, which is kept."""

    step: int
    metric: str
    value: float
    path: str
    export_path: str | None = None
    """Where its model was exported to, at the end of training."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A peer that does not answer now."""

    task: str
    since: float | None
    """When the first of the failed probes since its last answer ended (monotonic seconds); None
    before the first. Counting starts again where the name resolves again, or no longer does, or
    has another address."""
    cause: Cause
    reason: str
    address: str | None = None
    """IP address that was asked; None where the name did not resolve."""

    def seconds(self, now: float) -> float:
        """Return for how long it has not answered; 0 before the first probe."""
        return 0.0 if self.since is None else now - self.since


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is known at one moment."""

    role: Role
    attempt: int = 0
    phase: Phase = Phase.WAITING
    unreachable: tuple[Unreachable, ...] = ()
    step: int = 0
    stepped_at: float | None = None
    """When the step last changed (monotonic seconds), later by what activities took since; in the
    future while no other step is due. None before training, unless a script says when it is due."""
    activity: Activity | None = None
    active_since: float = 0.0
    """When the activity began (monotonic seconds)."""
    resumed_step: int | None = None
    """Step of the checkpoint that training went on from; None if it began at the beginning."""
    total_steps: int | None = None
    steps_per_second: float | None = None
    examples: int = 0
    """Trained on since this process began, by all workers."""
    examples_per_second: float | None = None
    repeated_examples: int = 0
    """Examples that the weights have seen once more, as a worker was lost that had them in hand."""
    workers: tuple[WorkerRate, ...] = ()
    queue_depth: int | None = None
    """Functions that are scheduled and not begun; None where nothing is scheduled."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    last_checkpoint: SavedCheckpoint | None = None
    model: ExportedModel | None = None
    best: BestCheckpoint | None = None
    updated_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def waiting_for(self) -> list[str]:
        """Who has to answer before training begins."""
        return [each.task for each in self.unreachable] if self.phase is Phase.WAITING else []

    def rates(self, now: float) -> list[WorkerRate]:
        """Return the speed of each worker; those that nobody has looked at for long have none."""
        return [each.at(now) for each in self.workers]

    def speed(self, now: float) -> float | None:
        """Return the examples per second of all workers, 0 if all of them stand still."""
        stand_still = self.workers and all(now > each.stale_at for each in self.workers)
        trains = self.phase is Phase.TRAINING and self.examples_per_second is not None
        return 0.0 if trains and stand_still else self.examples_per_second

    def document(self, now: float) -> dict[str, Any]:
        """Return the snapshot as the contract writes it, with ages at `now` (monotonic seconds).

        Metrics that are not finite are left out, since JSON has no word for them; the log says so.
        """
        saved, model, best = self.last_checkpoint, self.model, self.best
        return {
            "version": VERSION,
            "role": str(self.role),
            "attempt": self.attempt,
            "phase": str(self.phase),
            "waitingFor": self.waiting_for,
            "unreachable": self._silent_longest(now),
            "step": self.step,
            "totalSteps": self.total_steps,
            "stepsPerSecond": _rounded(self.steps_per_second),
            "examplesPerSecond": _rounded(self.speed(now)),
            "workers": self._speeds(now),
            "repeatedExamples": self.repeated_examples,
            "queueDepth": self.queue_depth,
            "secondsSinceStep": self._step_age(now),
            "activity": self._long_activity(now),
            "resumedStep": self.resumed_step,
            "metrics": {
                name: _rounded(value)
                for name, value in sorted(self.metrics.items())
                if math.isfinite(value)
            },
            "lastCheckpoint": saved
            and {"step": saved.step, "path": saved.path, "time": timestamp(saved.time)},
            "model": model
            and {"step": model.step, "path": model.path, "formats": list(model.formats)},
            "best": best
            and {
                "step": best.step,
                "metric": best.metric,
                "value": _rounded(best.value),
                "path": best.path,
                "exportPath": best.export_path,
            },
            "updatedAt": timestamp(self.updated_at),
        }

    def _silent_longest(self, now: float) -> list[dict[str, Any]]:
        # Nobody has to answer any more, and the termination log has little room.
        if self.phase is Phase.DONE:
            return []
        longest_first = sorted(self.unreachable, key=lambda each: -each.seconds(now))
        return [
            {
                "task": each.task,
                "seconds": round(each.seconds(now), 1),
                "cause": str(each.cause),
                "reason": each.reason,
                "address": each.address,
            }
            for each in longest_first[:_MOST_UNREACHABLE]
        ]

    def _speeds(self, now: float) -> list[dict[str, Any]]:
        # Nobody works any more, and the termination log has little room.
        if self.phase is Phase.DONE:
            return []
        return [
            {
                "task": each.task,
                "examplesPerSecond": _rounded(each.examples_per_second),
                "inputWait": _rounded(each.input_wait),
            }
            for each in self.rates(now)[:_MOST_WORKERS]
        ]

    def _step_age(self, now: float) -> float | None:
        if self.stepped_at is None or self.phase not in (Phase.WAITING, Phase.TRAINING):
            return None
        # A time in which no step is expected is none without steps.
        until = now if self.activity is None else self.active_since
        return round(max(0.0, until - self.stepped_at), 1)

    def _long_activity(self, now: float) -> str | None:
        if self.activity is None or now - self.active_since < _ACTIVITY_SECONDS:
            return None
        return str(self.activity)


class Progress:
    """The current snapshot; written by the training thread, read by the HTTP server."""

    def __init__(self, first: Snapshot) -> None:
        self._snapshot = first
        # A script's handler of a signal reports whatever it interrupts.
        self._lock = threading.RLock()

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self._snapshot

    def document(self) -> dict[str, Any]:
        """Return the newest snapshot as the contract writes it."""
        return self._snapshot.document(time.monotonic())

    def update(self, **changes: Any) -> Snapshot:  # noqa: ANN401 -- fields of Snapshot
        """Replace the fields named; the time as well, if that shows in the document."""
        with self._lock:
            changed = replace(self._snapshot, **changes)
            if changed.document(0.0) != self._snapshot.document(0.0):
                changed = replace(changed, updated_at=datetime.now(UTC))
            self._snapshot = changed
            return changed


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC by whole seconds, as Kubernetes writes times."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def describe(snapshot: Snapshot) -> str:
    """One line for the log: `step 1200/3000 (40%), 41 steps/s, loss 0.17, accuracy 0.95`."""
    total = snapshot.total_steps
    parts = [f"step {snapshot.step}"]
    if total:
        parts = [f"step {snapshot.step}/{total} ({100 * snapshot.step // total}%)"]
    if snapshot.steps_per_second is not None:
        parts.append(f"{snapshot.steps_per_second:.3g} steps/s")
    if snapshot.examples_per_second is not None:
        parts.append(f"{snapshot.examples_per_second:.3g} examples/s")
    loss_first = sorted(snapshot.metrics.items(), key=lambda item: (item[0] != "loss", item[0]))
    parts += [f"{name} {value:.4g}" for name, value in loss_first]
    return ", ".join(parts)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
