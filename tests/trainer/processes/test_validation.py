"""What becomes of a validation in which the chief ends."""

import json
import re
import signal
import textwrap

import pytest
from harness import Computer, LoopbackCluster, Process, Servers
from tftrainer.saving import claims

TASK = """
    import tensorflow as tf
    import light_digits
    from tensorflow.python.data.experimental.ops import testing

    model = light_digits.model

    def dataset(split, context):
        data = light_digits.dataset(split, context)
        if split == "evaluation" and "slow" in context.options:
            data = data.map(said).apply(testing.sleep(1_000_000))
        return data

    def said(*batch):
        tf.print("validating")
        return batch

    class Told(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs):
            self.epoch = epoch

        def on_epoch_end(self, epoch, logs):
            assert self.epoch == epoch
            print(f"told: epoch {epoch} ends, {logs['loss'] > 0 < logs['val_loss']}", flush=True)

    def callbacks(context):
        # By its monitor, it has the model validated.
        return [Told(), tf.keras.callbacks.EarlyStopping("val_loss", patience=9)]
"""


def told(chief: Process) -> list[str]:
    return re.findall(r"^told: (.*)$", chief.log, re.MULTILINE)


def test_an_older_attempt_leaves_the_best_of_a_newer_one_alone(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(TASK))
    folder = here.folder / "ckpt"
    env = {"TFTRAINING_CHECKPOINT_DIR": str(folder), "TFTRAINING_JOB_UID": "u"}
    task = ["--task=mine.py", "--steps-per-epoch=20", "--keep-best=val_accuracy"]

    older = here.start("older", *task, "--option=slow=yes", env=env)
    older.says("validating")
    claims.write(str(folder), claims.Claim("", "u", attempt=1))
    assert older.ends() == 143, older.log
    assert "attempt 1 of" in older.last_words
    assert not (folder / "best").exists()


@pytest.mark.parametrize(
    ("mode", "number", "epochs"),
    [
        pytest.param("alone", signal.SIGTERM, 1, id="alone, in the last epoch"),
        pytest.param("alone", signal.SIGKILL, 2, id="alone, killed"),
        pytest.param("asynchronous", signal.SIGTERM, 1, id="asynchronous, in the last epoch"),
        pytest.param("synchronous", signal.SIGTERM, 2, id="synchronous"),
        pytest.param("fit", signal.SIGTERM, 1, id="fit, in the last epoch"),
        pytest.param("fit", signal.SIGTERM, 2, id="fit"),
    ],
)
def test_the_next_start_validates_the_epoch_and_calls_its_callbacks(
    here: Computer, servers: Servers, mode: str, number: signal.Signals, epochs: int
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(TASK))
    env = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    task = ["--task=mine.py", f"--epochs={epochs}", "--steps-per-epoch=20"]
    task.append("--keep-best=val_accuracy")
    if mode != "alone":
        env = servers.cluster.env("chief", **env)
        task.append(f"--mode={mode}")

    first = here.start("first", *task, "--option=slow=yes", env=env)
    first.says("validating")
    first.signal(number)
    assert first.ends() == (143 if number is signal.SIGTERM else -number), first.log
    assert told(first) == []

    second = here.start("second", *task, env=env)
    assert second.ends() == 0, second.log
    assert told(second) == [f"epoch {epoch} ends, True" for epoch in range(epochs)]
    assert len(re.findall("validated step", second.log)) == epochs
    done = json.loads(second.last_words)
    assert done["best"]["metric"] == "val_accuracy"
    assert sorted(done["metrics"]) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert done["metrics"]["loss"] > 0

    third = here.start("third", *task, env=env)
    assert third.ends() == 0, third.log
    assert told(third) == []
    again = json.loads(third.last_words)
    assert (again["best"], again["metrics"]) == (done["best"], done["metrics"])


def test_all_members_do_it_again_after_the_chief_was_killed(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(TASK))
    env = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    task = ["--task=mine.py", "--epochs=2", "--steps-per-epoch=20", "--batch-size=32"]

    def start(*more: str) -> tuple[Process, Process]:
        cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
        chief, worker = (
            here.start(role, *task, *more, env=cluster.env(role, **env))
            for role in ("chief", "worker")
        )
        return chief, worker

    chief, worker = start("--option=slow=yes")
    chief.says("validating")
    chief.kill()
    assert worker.ends() == 69, worker.log

    members = start()
    for each in members:
        assert each.ends() == 0, each.log
        assert told(each) == ["epoch 0 ends, True", "epoch 1 ends, True"]


WITHOUT_METRICS = """
    import tensorflow as tf
    from light_digits import dataset, model as of_digits

    def model():
        made = of_digits()
        made.compile("sgd")
        return made

    def train_step(model, batch):
        features, labels = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(features, training=True) ** 2)
        model.optimizer.minimize(loss, model.trainable_variables, tape=tape)
        return {"loss": loss}
"""


def test_a_validation_without_a_metric_is_no_sigterm(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(WITHOUT_METRICS))
    task = ["--task=mine.py", "--steps-per-epoch=20", "--validation=evaluation"]
    chief = here.start("chief", *task, f"--checkpoint-dir={here.folder}/ckpt")

    assert chief.ends() == 0, chief.log
    assert sorted(json.loads(chief.last_words)["metrics"]) == ["loss"]
