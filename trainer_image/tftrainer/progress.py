"""How far this task is: one immutable snapshot, replaced as a whole. No TensorFlow, no sockets.

The document is the contract's (tests/contract/progress.json); the operator reads it at /progress
and, after a good end, from the termination log.
"""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tftrainer.cluster import Role

VERSION = 1


class Phase(StrEnum):
    """What the task is doing."""

    WAITING = "waiting"
    TRAINING = "training"
    EVALUATING = "evaluating"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """One complete checkpoint."""

    step: int
    path: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is known at one moment."""

    role: Role
    attempt: int = 0
    phase: Phase = Phase.WAITING
    waiting_for: tuple[str, ...] = ()
    step: int = 0
    total_steps: int | None = None
    steps_per_second: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    last_checkpoint: SavedCheckpoint | None = None
    updated_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def document(self) -> dict[str, Any]:
        """Return the snapshot as the contract writes it.

        Metrics that are not finite are left out, since JSON has no word for them; the log says so.
        """
        saved = self.last_checkpoint
        return {
            "version": VERSION,
            "role": str(self.role),
            "attempt": self.attempt,
            "phase": str(self.phase),
            "waitingFor": list(self.waiting_for),
            "step": self.step,
            "totalSteps": self.total_steps,
            "stepsPerSecond": _rounded(self.steps_per_second),
            "metrics": {
                name: _rounded(value)
                for name, value in sorted(self.metrics.items())
                if math.isfinite(value)
            },
            "lastCheckpoint": saved
            and {"step": saved.step, "path": saved.path, "time": timestamp(saved.time)},
            "updatedAt": timestamp(self.updated_at),
        }


class Progress:
    """The current snapshot; written by the training thread, read by the HTTP server."""

    def __init__(self, first: Snapshot) -> None:
        self._snapshot = first
        self._lock = threading.Lock()

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self._snapshot

    def update(self, **changes: Any) -> Snapshot:  # noqa: ANN401 -- fields of Snapshot
        """Replace the fields named, and the time."""
        with self._lock:
            self._snapshot = replace(self._snapshot, updated_at=datetime.now(UTC), **changes)
            return self._snapshot


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
    loss_first = sorted(snapshot.metrics.items(), key=lambda item: (item[0] != "loss", item[0]))
    parts += [f"{name} {value:.4g}" for name, value in loss_first]
    return ", ".join(parts)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
