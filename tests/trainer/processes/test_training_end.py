"""The end of training: the last checkpoint, then callbacks, and how the checkpoint is named."""

import json
import re
import signal
import textwrap
from pathlib import Path

import pytest
import tensorflow as tf
from harness import DIGITS, EXPORTS, Computer, LoopbackCluster, Process, Servers

FAILING = """
    from pathlib import Path

    import tensorflow as tf
    from light_digits import dataset, model

    class Export(tf.keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            if not Path("export").is_dir():
                raise OSError("export: no such directory")
            print("told: exported", flush=True)

    def callbacks(context):
        return [Export()]
"""
CHANGING = """
    import tensorflow as tf
    from light_digits import dataset, model

    class Restore(tf.keras.callbacks.Callback):
        def HOOK(self, *_, **__):
            self.model.layers[-1].bias.assign([42.0] * 10)
            self.model.stop_training = True

    def callbacks(context):
        return [Restore()]
"""
STOPPING_EARLY = """
    import tensorflow as tf
    from light_digits import dataset, model

    class Worse(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["loss"] = float(epoch)
            if epoch:
                self.model.layers[-1].bias.assign([0.0] * 10)
            else:
                self.model.layers[-1].bias.assign([42.0] * 10)

    def callbacks(context):
        stop = tf.keras.callbacks.EarlyStopping("loss", patience=1, restore_best_weights=True)
        return [Worse(), stop]
"""
SLOW = """
    import time

    import tensorflow as tf
    from light_digits import dataset, model

    class Slow(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            time.sleep(5)

    def callbacks(context):
        return [Slow()]
"""
SLOW_AT_THE_END = """
    import time

    import tensorflow as tf
    from light_digits import dataset, model

    class Slow(tf.keras.callbacks.Callback):
        def HOOK(self, *_):
            print("told: busy", flush=True)
            time.sleep(60)

    def callbacks(context):
        return [Slow()]
"""
SLOWLY_COPIED = """
    import time

    import tensorflow as tf
    from light_digits import dataset, model

    copied = tf.io.gfile.copy

    def copy(*arguments, **named):
        time.sleep(4)
        copied(*arguments, **named)

    tf.io.gfile.copy = copy
"""
GANG = "MultiWorkerMirrored"
EVERYWHERE = ["alone", "asynchronous", "synchronous", "local", "fit", GANG]
SHORT = ("--task=mine.py", "--epochs=2", "--steps-per-epoch=10")


def arguments(mode: str, *more: str) -> list[str]:
    chosen = [] if mode == "alone" else [f"--mode={mode}"]
    return [*SHORT, *chosen, *(["--local-steps=5"] if mode == "local" else []), *more]


def environment(here: Computer, servers: Servers, mode: str) -> dict[str, str]:
    told = {
        "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"),
        "TFTRAINING_JOB": "mine",
        "TFTRAINING_JOB_UID": "u",
    }
    return told if mode == "alone" else servers.cluster.env("chief", **told)


def started(here: Computer, servers: Servers, mode: str, *more: str) -> Process:
    """A chief in this mode, or of a gang whose other member is started with it."""
    if mode != GANG:
        env = environment(here, servers, mode)
        return here.start("chief", *arguments(mode, *more), env=env)
    cluster = LoopbackCluster.of(GANG, worker=1)
    told = environment(here, servers, "alone")
    chief, _ = (
        here.start(role, *arguments("alone", *more), env=cluster.env(role, **told))
        for role in ("chief", "worker")
    )
    return chief


def biases(checkpoint: str) -> list[list[float]]:
    """Those of the model's only layer."""
    reader = tf.train.load_checkpoint(checkpoint)
    return [
        list(reader.get_tensor(name))
        for name, shape in reader.get_variable_to_shape_map().items()
        if shape == [10] and "bias/.ATTRIBUTES" in name and "optimizer" not in name
    ]


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "synchronous", "local", "fit"])
def test_a_callback_that_fails_at_the_end_costs_no_step(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(FAILING))
    env = environment(here, servers, mode)

    first = here.start("first", *arguments(mode), env=env)
    assert first.ends() == 1, first.log
    assert "OSError: export: no such directory" in first.last_words
    saved = re.search(r"saved checkpoint (\S+/ckpt-(\d+))", first.log)
    assert saved is not None, first.log

    (here.folder / "export").mkdir()
    again = here.start("again", *arguments(mode), env=env)
    assert again.ends() == 0, again.log
    assert f"resumed from checkpoint {saved[1]}\n" in again.log
    assert "told: exported" in again.log
    done = json.loads(again.last_words)
    assert done["step"] == int(saved[2])
    assert done["metrics"]["loss"] > 0 < done["metrics"]["accuracy"]


FAILING_EXPORT = """
    from pathlib import Path

    from light_digits import dataset, model

    def export(model, path):
        list(Path("export").iterdir())
        Path(path, "model").touch()
"""


@pytest.mark.parametrize("task", [FAILING, FAILING_EXPORT], ids=["callback", "export"])
def test_more_epochs_are_made_although_the_end_was_reached_before(
    here: Computer, servers: Servers, task: str
) -> None:
    """Of the same job, which was suspended and given more epochs when its end had failed."""
    (here.folder / "mine.py").write_text(textwrap.dedent(task))
    env = environment(here, servers, "alone")
    first = here.start("first", *arguments("alone", EXPORTS), env=env)
    assert first.ends() == 1, first.log

    (here.folder / "export").mkdir()
    again = here.start("again", *arguments("alone", EXPORTS, "--epochs=4"), env=env)
    assert again.ends() == 0, again.log
    assert json.loads(again.last_words)["step"] == 4 * 10
    assert json.loads((here.folder / "ckpt/complete.json").read_text())["step"] == 4 * 10


ADDING = """
    import os
    import signal
    from pathlib import Path

    import tensorflow as tf
    from light_digits import dataset, model

    class Adds(tf.keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            print("told: begins", flush=True)

        def on_train_end(self, logs=None):
            bias = self.model.layers[-1].bias
            bias.assign(tf.ones([10]) if Path("killed").exists() else [42.0] * 10)

    def callbacks(context):
        return [Adds()]

    def export(model, path):
        Path(path, "model").touch()
        if not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "fit"])
def test_callbacks_that_are_done_are_not_called_again_for_the_export(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(ADDING))
    env = environment(here, servers, mode)
    killed = here.start("killed", *arguments(mode, EXPORTS), env=env)
    assert killed.ends() == -9, killed.log

    again = here.start("again", *arguments(mode, EXPORTS), env=env)
    assert again.ends() == 0, again.log
    assert "told: begins" not in again.log
    done = json.loads(again.last_words)
    assert done["model"]["formats"] == ["custom"]
    assert biases(done["lastCheckpoint"]["path"]) == [[42.0] * 10]


@pytest.mark.parametrize(
    ("mode", "hook"),
    [*((mode, "on_train_end") for mode in EVERYWHERE), ("fit", "on_epoch_end")],
)
def test_weights_that_a_callback_changes_are_in_the_last_checkpoint(
    here: Computer, servers: Servers, mode: str, hook: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(CHANGING.replace("HOOK", hook)))
    chief = started(here, servers, mode, "--checkpoint-seconds=0.001")

    assert chief.ends() == 0, chief.log
    checkpoint = json.loads(chief.last_words)["lastCheckpoint"]["path"]
    assert biases(checkpoint) == [[42.0] * 10]


@pytest.mark.parametrize("mode", EVERYWHERE)
def test_weights_that_early_stopping_restores_are_in_the_last_checkpoint(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(STOPPING_EARLY))
    chief = started(here, servers, mode, "--epochs=5", "--checkpoint-seconds=0.001")

    assert chief.ends() == 0, chief.log
    done = json.loads(chief.last_words)
    assert done["step"] < 5 * 10, "it stops early"
    assert biases(done["lastCheckpoint"]["path"]) == [[42.0] * 10]


@pytest.mark.parametrize("mode", EVERYWHERE)
def test_a_callback_may_take_longer_than_a_stall(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(SLOW))

    more = ("--epochs=1", "--stall-seconds=3", "--first-step-seconds=60")
    chief = started(here, servers, mode, *more)
    assert chief.ends() == 0, chief.log


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("on_train_end", "in the callbacks, which did not end within --grace-seconds; the chec"),
        ("on_epoch_end", "the checkpoint was not saved within --grace-seconds"),
    ],
)
def test_sigterm_in_a_callback_says_whether_the_checkpoint_is_saved(
    here: Computer, hook: str, says: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(SLOW_AT_THE_END.replace("HOOK", hook)))
    chief = here.start("chief", *SHORT, "--grace-seconds=1", "--checkpoint-dir=ckpt")
    chief.says("told: busy")
    chief.signal(signal.SIGTERM)

    assert chief.ends() == 143, chief.log
    assert says in chief.last_words
    assert any((here.folder / "ckpt").glob("ckpt-*")) == (hook == "on_train_end")


@pytest.mark.parametrize("mode", ["alone", GANG])
def test_the_copy_of_the_best_may_take_longer_than_a_stall(
    here: Computer, servers: Servers, mode: str
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(SLOWLY_COPIED))

    limits = ("--stall-seconds=3", "--first-step-seconds=60")
    chief = started(here, servers, mode, "--keep-best=loss", *limits)
    assert chief.ends() == 0, chief.log
    assert "best" in json.loads(chief.last_words)


@pytest.mark.parametrize("mode", ["alone", "asynchronous", "fit"])
def test_a_checkpoint_beyond_the_training_keeps_the_name_of_its_step(
    here: Computer, servers: Servers, mode: str
) -> None:
    env = environment(here, servers, mode)

    def trained(epochs: int) -> tuple[str, dict]:
        chosen = [] if mode == "alone" else [f"--mode={mode}"]
        chief = here.start(
            "chief", DIGITS, "--steps-per-epoch=10", f"--epochs={epochs}", *chosen, env=env
        )
        assert chief.ends() == 0, chief.log
        return chief.log, json.loads(chief.last_words)

    _, before = trained(3)
    # Of the same job: another one would be refused. It is as if it was stopped before the end.
    (here.folder / "ckpt/complete.json").unlink()
    log, done = trained(2)

    step = before["lastCheckpoint"]["step"]
    assert (done["step"], done["totalSteps"], done["lastCheckpoint"]["step"]) == (step, step, step)
    assert names(here.folder / "ckpt") == [f"ckpt-{step}"]
    assert f"already complete at step {step}, with all epochs that were asked for" in log


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("ckpt-*.index"))
