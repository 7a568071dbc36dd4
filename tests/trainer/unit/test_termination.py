"""The last words of a task: 4,096 bytes at most, of which the operator reads JSON."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tftrainer.config.cluster import Role
from tftrainer.runtime import termination
from tftrainer.runtime.progress import ExportedModel, Phase, SavedCheckpoint, Snapshot

LIMIT = 4096


def written(folder: Path, snapshot: Snapshot) -> str:
    path = folder / "log"
    termination.write_document(path, snapshot.document(0.0))
    return path.read_text() if path.exists() else ""


def done(metrics: int, *, path: str = "/checkpoints") -> Snapshot:
    return Snapshot(
        role=Role.CHIEF,
        phase=Phase.DONE,
        step=9,
        metrics={f"müde_{number:03}": 0.123456 for number in range(metrics)},
        last_checkpoint=SavedCheckpoint(9, f"{path}/ckpt-9", datetime.now(UTC)),
        model=ExportedModel(9, f"{path}/export/9", ("saved_model", "keras")),
    )


@pytest.mark.parametrize("metrics", [0, 20])
def test_a_document_that_fits_is_kept_whole(tmp_path: Path, metrics: int) -> None:
    found = json.loads(written(tmp_path, done(metrics)))
    assert len(found["metrics"]) == metrics


def test_of_too_many_metrics_as_many_are_kept_as_fit_and_all_the_rest(tmp_path: Path) -> None:
    text = written(tmp_path, done(300))
    assert LIMIT - 40 < len(text.encode()) <= LIMIT
    found = json.loads(text)
    kept = [f"müde_{number:03}" for number in range(len(found["metrics"]))]
    assert list(found["metrics"]) == kept
    assert len(kept) > 32, "as many as the status of a job has"
    assert found["model"]["step"] == 9
    assert found["lastCheckpoint"]["path"] == "/checkpoints/ckpt-9"


def test_of_a_document_that_never_fits_no_part_is_written(tmp_path: Path) -> None:
    assert written(tmp_path, done(300, path="x" * LIMIT)) == ""
