"""What TensorBoard shows of a job, read by TensorBoard itself."""

import os
import textwrap
import threading
import time
from pathlib import Path
from typing import IO

import pytest
from harness import Computer, Servers, until
from tftrainer.runtime import process

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import (  # noqa: E402
    EventAccumulator,
)
from tensorboard.util.tensor_util import make_ndarray  # noqa: E402
from tensorflow.python.framework import op_callbacks  # noqa: E402 -- no public way to see them
from tftrainer.training import event_files, tensorboard  # noqa: E402 -- imports TensorFlow, after what it reads is set


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by tag."""
    events = EventAccumulator(str(folder)).Reload()
    found = {}
    for tag in events.Tags()["tensors"]:
        if events.SummaryMetadata(tag).plugin_data.plugin_name != "scalars":
            continue  # Keras's callback writes the model's graph as well
        found[tag] = [
            (event.step, float(make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)
        ]
    return found


def test_scalars_are_written_as_tensorboard_reads_them(tmp_path: Path) -> None:
    logs = tensorboard.Logs(str(tmp_path))
    logs.write("chief", 5, {"loss": 0.25})
    logs.write("worker-3", 5, {})
    logs.close()

    assert scalars(tmp_path / "logs/chief") == {"loss": [(5, 0.25)]}
    assert not (tmp_path / "logs/worker-3").exists()


def test_to_write_scalars_runs_no_operation(tmp_path: Path) -> None:
    """The first operation of a kind waits for all servers, one that hangs too."""
    ran = []

    def note(kind: str, *_: object, **__: object) -> None:
        ran.append(kind)

    op_callbacks.add_op_callback(note)
    try:
        logs = tensorboard.Logs(str(tmp_path))
        logs.write("chief", 5, {"loss": 0.25})
        assert ran == []
        tf.constant(1.0) + 1.0
    finally:
        op_callbacks.remove_op_callback(note)
    assert ran == ["AddV2"]
    logs.close()


def test_curves_that_cannot_be_written_are_missing_and_end_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "_FLUSH_SECONDS", 0.01)
    (tmp_path / "logs").touch()
    logs = tensorboard.Logs(str(tmp_path))
    logs.write("chief", 1, {"loss": 0.5})
    until(lambda: caplog.records, "it is said")
    logs.write("chief", 2, {"loss": 0.5})
    time.sleep(0.1)
    (tmp_path / "logs").unlink()
    logs.write("chief", 3, {"loss": 0.25})
    logs.close()

    (said,) = caplog.records
    assert "logs cannot be written: " in said.message
    assert scalars(tmp_path / "logs/chief") == {"loss": [(3, 0.25)]}


def test_a_volume_that_hangs_is_waited_for_at_the_end_alone_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "_FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(tensorboard, "_CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(tensorboard, "_MOST_WAITING", 5)
    before = threading.active_count()
    is_whole = threading.Event()
    begun = event_files.begun

    def begun_late(directory: str) -> IO[bytes]:
        is_whole.wait()
        return begun(directory)

    monkeypatch.setattr(event_files, "begun", begun_late)
    logs = tensorboard.Logs(str(tmp_path))
    logs.write("chief", 0, {"loss": 0.5})
    time.sleep(0.1)
    for step in range(1, 21):
        logs.write("chief", step, {"loss": 0.5})
    logs.close()
    assert not (tmp_path / "logs").exists()

    is_whole.set()
    until(lambda: not threading.active_count() - before, "all is written")
    written = scalars(tmp_path / "logs/chief")["loss"]
    # What it was at, and the newest of what had to wait.
    assert [step for step, _ in written] == [0, *range(16, 21)]


EPOCHS = 6
"""Each is shorter than the time between two reports, and a worker has a speed after two of them."""
WITH_CALLBACK = """
    import tensorflow as tf
    from light_digits import dataset, model

    def callbacks(context):
        return [tf.keras.callbacks.TensorBoard(context.options["logs"])]
"""


@pytest.mark.parametrize("mode", ["asynchronous", "fit"])
def test_each_role_and_the_users_callback_have_their_folder(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(WITH_CALLBACK))
    own = here.folder / "own"
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder), "TFTRAINING_JOB_UID": "u"}
    task = ("--task=mine.py", f"--epochs={EPOCHS}", f"--option=logs={own}", f"--mode={mode}")
    evaluator = here.start("evaluator", *task, env=servers.cluster.env("evaluator", **shared))
    chief = here.start("chief", *task, env=servers.cluster.env("chief", **shared))
    assert (chief.ends(), evaluator.ends()) == (0, 0), chief.log + evaluator.log

    shown = {folder.name: scalars(folder) for folder in (here.folder / "logs").iterdir()}
    assert set(shown) == {"chief", "evaluator", "worker-0", "worker-1"}
    assert {"loss", "accuracy", "examples_per_second"} <= set(shown["chief"])
    assert {"loss", "accuracy"} <= set(shown["evaluator"])
    for worker in ("worker-0", "worker-1"):
        assert max(value for _, value in shown[worker]["worker_examples_per_second"]) > 0
    epochs = scalars(own / "train")["epoch_loss"]
    assert [step for step, _ in epochs] == [*range(EPOCHS)]
    assert 0 < epochs[-1][1] < epochs[0][1]
