"""A task's Keras callbacks, in every mode of the ParameterServer strategy and alone."""

import json
import re
import textwrap
from pathlib import Path

import pytest
import tensorflow as tf
from harness import EXPORTS, Computer, Servers
from tftrainer.context import Context
from tftrainer.user import model
from tftrainer.user.evaluation import Evaluation
from tftrainer.user.task import load

STOPPING = """
    import tensorflow as tf
    from light_digits import dataset, model

    class Told(tf.keras.callbacks.Callback):
        def on_train_begin(self, logs):
            print("told: begin", flush=True)

        def on_epoch_begin(self, epoch, logs):
            print(f"told: epoch {epoch} begins", flush=True)

        def on_epoch_end(self, epoch, logs):
            print(f"told: epoch {epoch} ends, {sorted(logs)}", flush=True)

        def on_train_end(self, logs):
            print("told: end", flush=True)

    def callbacks(context):
        # No epoch is better than the one before by so much: it stops at the end of the second.
        return [Told(), tf.keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=1e9)]
"""
WANTED = [
    "begin",
    "epoch 0 begins",
    "epoch 0 ends, ['accuracy', 'loss', 'val_accuracy', 'val_loss']",
    "epoch 1 begins",
    "epoch 1 ends, ['accuracy', 'loss', 'val_accuracy', 'val_loss']",
    "end",
]


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "synchronous", "local", "fit"])
def test_they_are_told_of_epochs_and_may_end_training(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(STOPPING))
    env = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    # The first epoch has the lowest accuracy of the two.
    task = ["--task=mine.py", "--epochs=5", "--steps-per-epoch=40", "--local-steps=5"]
    task += ["--keep-best=val_accuracy:min", EXPORTS]
    if mode != "alone":
        env = servers.cluster.env("chief", **env)
        task.append(f"--mode={mode}")

    chief = here.start("chief", *task, env=env)
    assert chief.ends() == 0, chief.log
    assert re.findall(r"^told: (.*)$", chief.log, re.MULTILINE) == WANTED
    done = json.loads(chief.last_words)
    # Two epochs of five; asynchronous workers may have made a few steps more.
    assert (done["phase"], done["step"]) == ("done", done["totalSteps"])
    assert done["lastCheckpoint"]["step"] == done["step"]
    # A synchronous step takes the batches of two workers.
    per_epoch = {"synchronous": 20}.get(mode, 40)
    assert 2 * per_epoch <= done["step"] < 3 * per_epoch
    assert sorted(done["metrics"]) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    validated = re.findall(r"validated step (\d+) .* val_accuracy ([\d.]+)", chief.log)
    worst_step, worst = min(validated, key=lambda each: float(each[1]))
    best = done["best"]
    assert (best["step"], best["metric"]) == (int(worst_step), "val_accuracy")
    assert best["value"] == pytest.approx(float(worst), rel=1e-3)
    assert evaluated(here, best["path"]) == pytest.approx(best["value"], abs=1e-6)
    assert best["exportPath"] == str(here.folder / f"ckpt/export/best/{worst_step}")
    assert Path(best["exportPath"], "saved_model.pb").exists()

    # What has ended early is not begun again by a restart.
    again = here.start("again", *task, env=env)
    assert again.ends() == 0, again.log
    assert json.loads(again.last_words)["step"] == done["step"]
    assert json.loads(again.last_words)["best"] == best
    assert "begins" not in again.log


def evaluated(here: Computer, checkpoint: str) -> float:
    """The accuracy of a checkpoint, as an evaluator would find it."""
    task = load(str(here.folder / "mine.py"))
    data = task.dataset("evaluation", Context())
    built = model.build(task, Context(), data)
    tf.train.Checkpoint(model=built).read(checkpoint).expect_partial()
    return Evaluation(task, built, data).metrics()["accuracy"]
