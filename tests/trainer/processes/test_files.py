"""What is left in the checkpoint directory: markers, scalars, and checkpoints that vanish."""

import os
from datetime import UTC, datetime
from pathlib import Path

from tftrainer import process
from tftrainer.progress import SavedCheckpoint

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer import checkpoints, marker, tensorboard  # noqa: E402


def test_a_marker_counts_only_for_its_own_job(tmp_path: Path) -> None:
    last = SavedCheckpoint(7, f"{tmp_path}/ckpt-7", datetime.now(UTC))
    marker.write(str(tmp_path), job="mine", job_uid="uid-1", last=last)

    assert marker.read(str(tmp_path), "uid-1") == marker.Marker("uid-1", 7, last.path)
    assert marker.read(str(tmp_path), "uid-2") is None
    assert marker.read(str(tmp_path / "elsewhere"), "uid-1") is None

    (tmp_path / "complete.json").write_text("half a mark")
    assert marker.read(str(tmp_path), "uid-1") is None


def test_scalars_are_written_as_tensorboard_reads_them(tmp_path: Path) -> None:
    scalars = tensorboard.Scalars(tensorboard.directory(str(tmp_path), "chief"))
    scalars.write(5, {"loss": 0.25})

    (events,) = (tmp_path / "logs" / "chief").glob("events.out.tfevents.*")
    records = [
        tf.compat.v1.Event.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(events))
    ]
    (value,) = [value for record in records for value in record.summary.value]
    assert records[-1].step == 5
    assert (value.tag, value.metadata.plugin_data.plugin_name) == ("loss", "scalars")
    assert float(tf.make_ndarray(value.tensor)) == 0.25


def test_checkpoints_are_found_without_the_state_file(tmp_path: Path) -> None:
    kept = checkpoints.Checkpoints(str(tmp_path), keep=2, io_device=None, step=tf.Variable(5))
    for step in (1, 2, 10):
        kept.save(step)
    (tmp_path / "checkpoint").unlink()

    again = checkpoints.Checkpoints(str(tmp_path), keep=2, io_device=None, step=tf.Variable(0))
    assert again.restore() == f"{tmp_path}/ckpt-10"
    assert not (tmp_path / "ckpt-1.index").exists()


def test_a_checkpoint_that_vanished_has_a_defect(tmp_path: Path) -> None:
    assert checkpoints.defect(f"{tmp_path}/ckpt-1") is not None
    assert checkpoints.found_or_none(f"{tmp_path}/ckpt-1", 1) is None
