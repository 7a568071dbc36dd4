"""What TensorBoard shows of a job, read by TensorBoard itself."""

import os
import textwrap
from pathlib import Path

import pytest
from harness import Computer, Servers
from tftrainer.runtime import process

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import (  # noqa: E402
    EventAccumulator,
)
from tensorboard.util.tensor_util import make_ndarray  # noqa: E402
from tensorflow.python.framework import op_callbacks  # noqa: E402 -- no public way to see them
from tftrainer.training import tensorboard  # noqa: E402 -- imports TensorFlow, after what it reads is set


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

    assert scalars(tmp_path / "logs/chief") == {"loss": [(5, 0.25)]}
    assert not (tmp_path / "logs/worker-3").exists()


def test_to_write_scalars_runs_no_operation(tmp_path: Path) -> None:
    """The first operation of a kind waits for all servers, one that hangs too."""
    ran = []

    def note(kind: str, *_: object, **__: object) -> None:
        ran.append(kind)

    op_callbacks.add_op_callback(note)
    try:
        tensorboard.Logs(str(tmp_path)).write("chief", 5, {"loss": 0.25})
        assert ran == []
        tf.constant(1.0) + 1.0
    finally:
        op_callbacks.remove_op_callback(note)
    assert ran == ["AddV2"]


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
