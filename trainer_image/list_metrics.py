"""Prints what /metrics of a chief serves if it has a value for everything. Needs no TensorFlow.

tools/training_metrics.py makes the table of docs/guide/monitoring.md from it. Not in the image.
"""

import sys
from dataclasses import fields
from datetime import UTC, datetime

from prometheus_client import generate_latest

from tftrainer.config.cluster import Role
from tftrainer.runtime.http_server import registry
from tftrainer.runtime.progress import (
    Activity,
    BestCheckpoint,
    Cause,
    ExportedModel,
    Progress,
    SavedCheckpoint,
    Snapshot,
    Unreachable,
)
from tftrainer.runtime.throughput import WorkerRate

_FULL = Snapshot(
    role=Role.CHIEF,
    unreachable=(Unreachable("ps-0", None, Cause.NOT_ASKED, "not asked yet"),),
    stepped_at=0.0,
    activity=Activity.CHECKPOINT,
    resumed_step=1,
    total_steps=9,
    steps_per_second=2.5,
    examples_per_second=640.0,
    workers=(WorkerRate("worker-0", 640.0, 0.25),),
    queue_depth=2,
    metrics={"loss": 0.5},
    last_checkpoint=SavedCheckpoint(7, "/checkpoints/ckpt-7", datetime.now(UTC)),
    model=ExportedModel(9, "/checkpoints/export/9", ("keras",)),
    best=BestCheckpoint(7, "val_loss", 0.5, "/checkpoints/best/ckpt-7"),
)


def main() -> None:
    """Print them; a value that is missing would hide its metric."""
    missing = [each.name for each in fields(_FULL) if getattr(_FULL, each.name) in (None, (), {})]
    if missing:
        sys.exit(f"{__file__}: give {', '.join(missing)} a value")
    sys.stdout.write(generate_latest(registry(Progress(_FULL))).decode())


if __name__ == "__main__":
    main()
