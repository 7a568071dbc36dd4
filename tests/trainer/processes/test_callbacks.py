"""A task's Keras callbacks, in every mode of the ParameterServer strategy and alone."""

import json
import re
import signal
import textwrap
from pathlib import Path

import pytest
import tensorflow as tf
from harness import EXPORTS, Computer, Process, Servers, until
from tftrainer.context import Context
from tftrainer.saving import marker
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


def a_task(
    here: Computer, servers: Servers, mode: str, code: str
) -> tuple[list[str], dict[str, str]]:
    """Write a task; return the arguments and variables of a chief that trains it in a mode."""
    (here.folder / "mine.py").write_text(textwrap.dedent(code))
    env = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    if mode == "alone":
        return ["--task=mine.py"], env
    return ["--task=mine.py", f"--mode={mode}"], servers.cluster.env("chief", **env)


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "synchronous", "local", "fit"])
def test_they_are_told_of_epochs_and_may_end_training(
    here: Computer, servers: Servers, mode: str
) -> None:
    task, env = a_task(here, servers, mode, STOPPING)
    # The first epoch has the lowest accuracy of the two.
    task += ["--epochs=5", "--steps-per-epoch=40"]
    task += ["--local-steps=5"] if mode == "local" else []
    task += ["--keep-best=val_accuracy:min", EXPORTS]

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


HALVING = """
    import tensorflow as tf
    from light_digits import dataset, model

    class Told(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            rate = float(self.model.optimizer.learning_rate.numpy())
            print(f"told: epoch {epoch} ends at {rate:.4g}", flush=True)

    def callbacks(context):
        return [tf.keras.callbacks.LearningRateScheduler(lambda _, rate: rate * 0.5), Told()]
"""


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "fit"])
def test_a_scheduler_that_multiplies_does_so_once_an_epoch_whatever_is_resumed(
    here: Computer, servers: Servers, mode: str
) -> None:
    task, env = a_task(here, servers, mode, HALVING)
    task += ["--epochs=2", "--steps-per-epoch=2000"]

    for _ in range(2):
        chief = here.start("chief", *task, env=env)
        begun = chief.step_beyond(0)
        chief.step_beyond(begun)
        chief.signal(signal.SIGTERM)
        assert chief.ends() == 143, chief.log
        assert "ends at" not in chief.log
    chief = here.start("chief", *task, env=env)
    assert chief.ends() == 0, chief.log
    told = re.findall(r"^told: (.*)$", chief.log, re.MULTILINE)
    assert told == ["epoch 0 ends at 0.05", "epoch 1 ends at 0.025"]


FAILING_AT_THE_END = """
    import os
    import tensorflow as tf
    from light_digits import dataset, model

    class Stops(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            print(f"told: epoch {epoch} ends", flush=True)
            self.model.stop_training = True

        def on_train_end(self, logs):
            if not os.path.exists("mended"):
                raise OSError("no room for the report")

    def callbacks(context):
        return [Stops()]
"""


@pytest.mark.parametrize("mode", ["alone", "synchronous", "fit"])
def test_an_early_end_is_kept_where_what_follows_it_fails(
    here: Computer, servers: Servers, mode: str
) -> None:
    task, env = a_task(here, servers, mode, FAILING_AT_THE_END)
    task += ["--epochs=5", "--steps-per-epoch=40"]

    chief = here.start("chief", *task, env=env)
    assert chief.ends() not in (0, 143), chief.log
    assert "no room for the report" in chief.last_words
    assert "told: epoch 0 ends" in chief.log
    assert not marker.is_complete(env["TFTRAINING_CHECKPOINT_DIR"], "u")
    (here.folder / "mended").touch()
    again = here.start("again", *task, env=env)
    assert again.ends() == 0, again.log
    assert "told" not in again.log
    assert json.loads(again.last_words)["step"] == {"synchronous": 20}.get(mode, 40)
    assert marker.is_complete(env["TFTRAINING_CHECKPOINT_DIR"], "u")


TOLD_OF_FILES = """
    import json
    import tensorflow as tf
    from light_digits import dataset, model
    from tftrainer.saving import files

    replace = files.replace

    def told(path, text):
        replace(path, text)
        if path.endswith("complete.json"):
            print("told: complete is", json.loads(text)["complete"], flush=True)

    files.replace = told
"""
WITH_CALLBACKS = """
    def callbacks(context):
        return [tf.keras.callbacks.Callback()]
"""


@pytest.mark.parametrize("mode", ["alone", "synchronous", "fit"])
@pytest.mark.parametrize(
    ("callbacks", "wanted"), [("", ["True"]), (WITH_CALLBACKS, ["False", "True"])]
)
def test_the_marker_is_written_once_and_before_callbacks_as_well(
    here: Computer, servers: Servers, mode: str, callbacks: str, wanted: list[str]
) -> None:
    task, env = a_task(here, servers, mode, TOLD_OF_FILES + callbacks)

    chief = here.start("chief", *task, "--epochs=1", "--steps-per-epoch=4", env=env)
    assert chief.ends() == 0, chief.log
    assert re.findall(r"^told: complete is (.*)$", chief.log, re.MULTILINE) == wanted


REDUCING = """
    import time

    import tensorflow as tf
    from light_digits import dataset, model

    class Reduces(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            rate = self.model.optimizer.learning_rate
            rate.assign(rate * 0.5)
            print(f"told: epoch {epoch} ends at {float(rate.numpy()):.4g}", flush=True)
            time.sleep(PAUSE)

    def callbacks(context):
        return [Reduces(), tf.keras.callbacks.EarlyStopping("MONITOR", patience=9)]
"""


@pytest.mark.parametrize(
    ("mode", "monitor", "pause", "number"),
    [
        pytest.param("alone", "val_loss", 0, signal.SIGKILL, id="alone, killed afterwards"),
        pytest.param("alone", "val_loss", 2, signal.SIGTERM, id="alone, terminated meanwhile"),
        pytest.param("alone", "loss", 2, signal.SIGKILL, id="alone, without validation"),
        pytest.param("asynchronous", "val_loss", 0, signal.SIGKILL, id="asynchronous"),
        pytest.param("fit", "val_loss", 0, signal.SIGKILL, id="fit"),
        pytest.param("fit", "loss", 2, signal.SIGKILL, id="fit, without validation"),
    ],
)
def test_what_they_change_at_the_end_of_an_epoch_is_lost_to_no_restart(
    here: Computer,
    servers: Servers,
    mode: str,
    *,
    monitor: str,
    pause: int,
    number: signal.Signals,
) -> None:
    code = REDUCING.replace("MONITOR", monitor).replace("PAUSE", str(pause))
    task, env = a_task(here, servers, mode, code)
    task += ["--epochs=2", "--steps-per-epoch=500", "--steps-per-closure=100"]

    # A checkpoint is due at the end of an epoch, or none but that of the validation.
    due = "0.001" if monitor == "loss" else "1000"
    first = here.start("first", *task, f"--checkpoint-seconds={due}", env=env)
    first.says("told: epoch 0 ends")
    first.signal(number)
    assert first.ends() == (143 if number is signal.SIGTERM else -number), first.log

    second = here.start("second", *task, env=env)
    assert second.ends() == 0, second.log
    told = re.findall(r"^told: (.*)$", first.log + second.log, re.MULTILINE)
    assert told[-1] == "epoch 1 ends at 0.025", second.log


TOLD = """
    import tensorflow as tf
    from light_digits import dataset, model

    class Told(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            print(f"told: epoch {epoch} ends, {sorted(logs)}", flush=True)

    def callbacks(context):
        return [Told()]
"""


def test_an_epoch_that_is_resumed_with_smaller_batches_still_ends(
    here: Computer, servers: Servers
) -> None:
    task, env = a_task(here, servers, "alone", TOLD)
    task += ["--steps-per-epoch=2000", "--closure-seconds=0.1"]
    first = here.start("first", *task, "--batch-size=64", env=env)
    first.step_beyond(200)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log

    # It has seen more examples by now than so many small batches hold.
    again = here.start("again", *task, "--batch-size=2", env=env)
    assert again.ends() == 0, again.log
    told = re.findall(r"^told: (.*)$", again.log, re.MULTILINE)
    assert told == ["epoch 0 ends, ['accuracy', 'loss']"]


def ends(process: Process) -> list[int]:
    return [int(each) for each in re.findall(r"^told: epoch (\d+) ends", process.log, re.MULTILINE)]


@pytest.mark.parametrize("mode", ["asynchronous", "fit"])
def test_an_epoch_ends_once_though_a_worker_that_hung_has_left_out_some_of_it(
    here: Computer, servers: Servers, mode: str
) -> None:
    task, env = a_task(here, servers, mode, TOLD)
    task += ["--steps-per-epoch=1000", "--closure-seconds=0.2"]
    # gRPC would give it up after 20 to 30 s, and others would make up for it.
    env["TF_GRPC_DEFAULT_OPTIONS"] = "grpc.keepalive_time_ms=600000"
    first = here.start("first", *task, "--epochs=100000", env=env)
    first.step_beyond(300)
    worker = servers.running["worker-1"]
    worker.signal(signal.SIGSTOP)
    try:
        first.says("continuing without it")
        ended = len(ends(first))
        until(lambda: len(ends(first)) > ended + 2, "further epochs end")
        first.signal(signal.SIGTERM)
        assert first.ends() == 143, first.log
    finally:
        worker.signal(signal.SIGCONT)
    epochs = len(ends(first)) + 2

    second = here.start("second", *task, f"--epochs={epochs}", env=env)
    assert second.ends() == 0, second.log
    assert ends(first) + ends(second) == list(range(epochs))


PAUSING = (
    HALVING
    + """
    import time

    class Pauses(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs):
            print(f"told: epoch {epoch} begins", flush=True)
            time.sleep(2 * epoch)

    scheduled = callbacks

    def callbacks(context):
        return [*scheduled(context), Pauses()]
"""
)


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous", "fit"])
def test_a_scheduler_multiplies_once_though_an_epoch_was_begun_and_no_step_made(
    here: Computer, servers: Servers, mode: str
) -> None:
    task, env = a_task(here, servers, mode, PAUSING)
    task += ["--epochs=2", "--steps-per-epoch=100"]
    first = here.start("first", *task, env=env)
    first.says("told: epoch 1 begins")
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log

    second = here.start("second", *task, env=env)
    assert second.ends() == 0, second.log
    told = re.findall(r"^told: (.* ends .*)$", second.log, re.MULTILINE)
    assert told == ["epoch 1 ends at 0.025"]


COUNTING = """
    import time

    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    class Examples(tf.keras.metrics.Metric):
        def __init__(self):
            super().__init__("examples")
            self.count = self.add_weight("count", initializer="zeros")

        def update_state(self, labels, *_, **__):
            self.count.assign_add(tf.cast(tf.size(labels), tf.float32))

        def result(self):
            return tf.identity(self.count)

    def model():
        made = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros")])
        made.compile(tf.keras.optimizers.SGD(0.0), "mae", [Examples()])
        return made

    def dataset(split, context):
        data = tf.ones([1000, 1]), tf.range(1000.0)[:, None]
        data = tf.data.Dataset.from_tensor_slices(data).batch(10)
        return data.apply(testing.sleep(20_000))

    class Told(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs):
            print(f"told: epoch {epoch} begins", flush=True)
            time.sleep(2 * epoch)

        def on_epoch_end(self, epoch, logs):
            print(f"told: of {epoch}: {logs['loss']} {logs['examples']}", flush=True)

    def callbacks(context):
        return [Told()]
"""


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "synchronous", "local", "fit"])
def test_metrics_of_an_epoch_that_is_resumed_are_of_all_of_it(
    here: Computer, servers: Servers, mode: str
) -> None:
    """Else the loss of the few batches that are left might be taken for the best of all."""
    task, env = a_task(here, servers, mode, COUNTING)
    task += ["--epochs=2", "--closure-seconds=0.2"]
    task += ["--local-steps=5"] if mode == "local" else []

    first = here.start("first", *task, env=env)
    first.step_beyond(30)
    first.signal(signal.SIGTERM)
    assert first.ends() == 143, first.log
    # Then between two epochs.
    second = here.start("second", *task, env=env)
    second.says("told: epoch 1 begins")
    second.signal(signal.SIGTERM)
    assert second.ends() == 143, second.log
    third = here.start("third", *task, env=env)
    assert third.ends() == 0, third.log

    told = re.findall(r"^told: of (\d): (\S+) (\S+)$", second.log + third.log, re.MULTILINE)
    assert [epoch for epoch, _, _ in told] == ["0", "1"]
    for _, loss, examples in told:
        # What a worker computes at SIGTERM may count twice.
        assert float(loss) == pytest.approx(499.5, rel=0.02)
        assert float(examples) == pytest.approx(1000, abs=20 if mode == "synchronous" else 0)
