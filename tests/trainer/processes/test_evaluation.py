"""What the evaluator computes: the task's test_step, or what compile() says; no loss made up."""

import os
import textwrap
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tftrainer.config import arguments, environment
from tftrainer.config.cluster import Role
from tftrainer.context import Context
from tftrainer.data.position import Position
from tftrainer.errors import BadConfigurationError, TerminatedError
from tftrainer.runtime import process
from tftrainer.runtime.progress import Progress, SavedCheckpoint, Snapshot
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.watchdog import Watchdog

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer import evaluator  # noqa: E402
from tftrainer.config.job import Job  # noqa: E402
from tftrainer.saving import checkpoints  # noqa: E402
from tftrainer.training import validation  # noqa: E402
from tftrainer.user import model  # noqa: E402
from tftrainer.user.evaluation import Evaluation  # noqa: E402
from tftrainer.user.task import UserTask, load  # noqa: E402

TASK = """
import tensorflow as tf

def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    made.compile({compiled})
    return made

def dataset(split, context):
    data = tf.ones([8, 2]), tf.range(8.0)[:, None]
    return tf.data.Dataset.from_tensor_slices(data).batch(4)
"""
TRAIN_STEP = """
def train_step(model, batch):
    features, labels = batch
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(features, training=True) - labels) ** 2)
    model.optimizer.minimize(loss, model.trainable_variables, tape=tape)
    return {"loss": loss}
"""
TEST_STEP = """
def test_step(model, batch):
    features, labels = batch
    if tf.reduce_sum(labels) > 1e9:  # of a tensor: AutoGraph has to convert this function
        labels = -labels
    return {"loss": tf.reduce_mean(labels - model(features)), "examples": tf.shape(labels)[0]}
"""
EXTENDS = """
def test_step(model, batch):
    found = model.test_step(batch)
    return {**found, "twice": 2 * found["loss"]}
"""
ADDED_LOSS = """
made = model

def model():
    network = made()
    network.add_loss(lambda: tf.constant(0.5))
    return network
"""


def evaluation(folder: Path, *parts: str, compiled: str = "'sgd'") -> Evaluation:
    source = TASK.replace("{compiled}", compiled) + "".join(textwrap.dedent(p) for p in parts)
    (folder / "mine.py").write_text(source)
    task = load(str(folder / "mine.py"))
    dataset = task.dataset("evaluation", Context())
    return Evaluation(task, model.build(task, Context(), dataset), dataset)


@pytest.mark.parametrize(
    ("parts", "compiled", "wanted"),
    [
        pytest.param([], "'sgd', 'mse', ['mae']", {"loss": 17.5, "mae": 3.5}, id="as compiled"),
        pytest.param([TRAIN_STEP], "'sgd', 'mse'", {"loss": 17.5}, id="a loss for evaluation"),
        pytest.param(
            [],
            "'sgd', 'mse', ['mae', tf.keras.metrics.Precision([0.2, 0.8])]",
            {"loss": 17.5, "mae": 3.5},
            id="a metric of several numbers",
        ),
        pytest.param([TRAIN_STEP], "'sgd'", {}, id="no loss"),
        pytest.param([TRAIN_STEP], "'sgd', metrics=['mae']", {"mae": 3.5}, id="metrics alone"),
        pytest.param([TRAIN_STEP, ADDED_LOSS], "'sgd'", {"loss": 0.5}, id="a loss of a layer"),
        pytest.param(
            [TRAIN_STEP, TEST_STEP], "'sgd'", {"loss": 3.5, "examples": 4.0}, id="a test_step"
        ),
        pytest.param(
            [TEST_STEP], "'sgd', 'mse', ['mae']", {"loss": 0.0, "examples": 4.0}, id="both"
        ),
        pytest.param(
            [EXTENDS],
            "'sgd', 'mse', ['mae']",
            # A mean of two batches, the first of which has a loss of 3.5.
            {"loss": 17.5, "mae": 3.5, "twice": 21.0},
            id="a test_step that extends the model's",
        ),
    ],
)
def test_what_is_reported(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    parts: list[str],
    compiled: str,
    wanted: dict[str, float],
) -> None:
    evaluates = evaluation(tmp_path, *parts, compiled=compiled)

    assert evaluates.metrics() == wanted
    assert evaluates.metrics() == wanted, "the means begin anew"
    assert ("no loss is evaluated" in caplog.text) == ("loss" not in wanted)


SCORES = """
def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense({classes}, kernel_initializer="zeros")])
    made.compile("sgd", "mse", [tf.keras.metrics.F1Score(threshold=0.5)])
    return made

def dataset(split, context):
    return tf.data.Dataset.from_tensors((tf.ones([8, 2]), tf.ones([8, {classes}])))
"""


@pytest.mark.parametrize(
    ("classes", "wanted"), [(1, {"loss": 1.0, "f1_score": 0.0}), (3, {"loss": 1.0})]
)
def test_a_metric_of_several_values_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, classes: int, wanted: dict[str, float]
) -> None:
    """As F1Score, which has one for each class unless it is told to average them."""
    evaluates = evaluation(tmp_path, SCORES.replace("{classes}", str(classes)))

    assert evaluates.metrics() == wanted
    said = "metrics that have several values are not reported: f1_score. "
    assert (said in caplog.text) == (classes > 1)


def test_a_test_step_that_cannot_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadConfigurationError, match=r"test_step\(model, batch\) of .* returned None"
    ):
        evaluation(tmp_path, TRAIN_STEP, "def test_step(model, batch): return None")
    with pytest.raises(
        BadConfigurationError, match=r"test_step\(\) of .* takes 1 parameter; .*batch"
    ):
        evaluation(tmp_path, TRAIN_STEP, "def test_step(batch): return {}")


def test_a_model_that_cannot_be_called_needs_a_step_to_be_evaluated(tmp_path: Path) -> None:
    uncallable = """
        class Parts(tf.keras.Model):
            def train_step(self, batch):
                return {"loss": 0.0}

        def model():
            made = Parts()
            made.compile("sgd")
            return made
    """
    with pytest.raises(BadConfigurationError, match=r"no call\(\).*test_step\(model, batch\)"):
        evaluation(tmp_path, uncallable)
    evaluates = evaluation(tmp_path, uncallable, "def test_step(model, batch): return {'one': 1.0}")
    assert evaluates.metrics() == {"one": 1.0}


def mine(folder: Path, *parts: str) -> UserTask:
    source = TASK.replace("{compiled}", "'sgd', 'mse', ['mae']")
    (folder / "mine.py").write_text(source + "".join(parts))
    return load(str(folder / "mine.py"))


def a_run() -> Run:
    watchdog = Watchdog(stall_seconds=60, first_step_seconds=60)
    return Run(Progress(Snapshot(role=Role.CHIEF)), watchdog)


def saved_with(task: UserTask, folder: Path, *, bias: float) -> SavedCheckpoint:
    trained = model.build(task, Context(), task.dataset("train", Context()))
    trained.layers[0].bias.assign([bias])
    path = tf.train.Checkpoint(model=trained).write(f"{folder}/ckpt-1")
    return SavedCheckpoint(1, path, datetime.now(UTC))


def test_validation_is_of_the_weights_of_a_checkpoint_and_ends_on_sigterm(tmp_path: Path) -> None:
    task, run = mine(tmp_path), a_run()
    saved = saved_with(task, tmp_path, bias=3.5)

    validates = validation.Validation(task, Context(), "evaluation", run=run)
    wanted = {"val_loss": 5.25, "val_mae": 2.0}
    assert validates.metrics(saved) == wanted
    assert validates.metrics(saved) == wanted
    run.stop.set()
    assert validates.metrics(saved) is None


def test_members_take_the_chiefs_numbers(tmp_path: Path) -> None:
    task, run = mine(tmp_path), a_run()
    run.stop.set()  # of one member: the others would wait for it

    shared = validation.Validation(
        task, Context(), "evaluation", run=run, share=lambda values: [v + 1 for v in values]
    )
    found = shared.metrics(saved_with(task, tmp_path, bias=0.0))
    assert found == {"val_loss": 18.5, "val_mae": 4.5}


WITHOUT_NAMES = """
import tensorflow as tf

COUNTS = tf.keras.metrics.AUC()  # has taken the first name

def model():
    features = tf.keras.Input((2,))
    outputs = [tf.keras.layers.Dense(1, activation="sigmoid")(features) for _ in range(2)]
    made = tf.keras.Model(features, outputs)
    made.compile("sgd", "mse", [[tf.keras.metrics.AUC()], [tf.keras.metrics.AUC()]])
    return made

def dataset(split, context):
    tf.keras.layers.Dense(1)
    labels = tf.ones([8, 1])
    return tf.data.Dataset.from_tensor_slices((tf.ones([8, 2]), (labels, labels))).batch(4)
"""


def test_validation_has_the_names_of_the_trained_model(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WITHOUT_NAMES)
    task = load(str(tmp_path / "mine.py"))
    dataset = task.dataset("train", Context())
    trained = model.build(task, Context(), dataset)
    path = tf.train.Checkpoint(model=trained).write(f"{tmp_path}/ckpt-1")

    validates = validation.Validation(task, Context(), "evaluation", run=a_run())
    found = validates.metrics(SavedCheckpoint(1, path, datetime.now(UTC)))
    assert sorted(found) == sorted(f"val_{name}" for name in trained.metrics_names)

    # What the trained model makes later has names of its own.
    known = {part.name for part in [*trained.layers, *trained.metrics]}
    assert tf.keras.layers.Dense(1).name not in known
    assert tf.keras.metrics.AUC().name not in known


STOPS = "[tf.keras.callbacks.EarlyStopping({monitor!r})]"


@pytest.mark.parametrize(
    ("argv", "monitor", "wanted"),
    [
        pytest.param([], "val_loss", "yes", id="a callback monitors it"),
        pytest.param([], "loss", "no", id="nobody asks"),
        pytest.param(["--validation=evaluation"], "loss", "yes", id="a split is named"),
        pytest.param(["--keep-best=val_mae:min"], "loss", "yes", id="for the best"),
        pytest.param(["--keep-best=mae:min"], "loss", "no", id="the best in training"),
        pytest.param(["--validation=none"], "val_loss", "no", id="never"),
    ],
)
def test_who_wants_validation(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    argv: list[str],
    monitor: str,
    wanted: str,
) -> None:
    own = f"\ndef callbacks(context): return {STOPS.format(monitor=monitor)}"
    task = mine(tmp_path, own)
    asked = arguments.parse(["--task=m", f"--checkpoint-dir={tmp_path}", *argv])

    found = validation.wanted(
        Job(asked, environment.read({})),
        task,
        Context(),
        task.callbacks(Context()),
        run=a_run(),
        share=None,
        of_any=bool,
    )
    assert (found is not None) == (wanted == "yes")
    warned = "EarlyStopping monitors val_loss, which is not reported with --validation=none"
    assert (warned in caplog.text) == ("--validation=none" in argv)


def test_a_callback_without_validation_is_told_what_to_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = mine(tmp_path, "\ndef callbacks(context): return " + STOPS.format(monitor="val_loss"))
    job = Job(arguments.parse(["--task=m"]), environment.read({}))
    callbacks = task.callbacks(Context())

    made = validation.wanted(job, task, Context(), callbacks, run=a_run(), share=None, of_any=bool)
    assert made is None
    assert "not reported without a checkpoint directory" in caplog.text
    assert "monitor='loss'" in caplog.text


def test_data_without_an_end_is_refused(tmp_path: Path) -> None:
    task = mine(tmp_path, "\nfinite = dataset\ndef dataset(s, c): return finite(s, c).repeat()")
    with pytest.raises(BadConfigurationError, match=r'dataset\("test", context\) .* is infinite'):
        validation.Validation(task, Context(), "test", run=a_run())


EMPTY = {
    "fewer than a batch": "tf.data.Dataset.range(8).batch(9, drop_remainder=True)",
    "a filter": "tf.data.Dataset.range(8).filter(lambda _: False).batch(4)",
}
"""How many batches the first has is known before it is read."""


def of(numbers: str) -> str:
    """A dataset of the task's examples as often as these numbers, in batches."""
    make = f"{numbers}.map(lambda n: (tf.ones([tf.size(n), 2]), tf.cast(n, tf.float32)[:, None]))"
    return f"\ndef dataset(split, c): return {make}\n"


def test_data_without_a_batch_is_refused_at_once(tmp_path: Path) -> None:
    task = mine(tmp_path, of(EMPTY["fewer than a batch"]))
    with pytest.raises(BadConfigurationError, match=r'dataset\("test", context\) .* is empty: '):
        validation.Validation(task, Context(), "test", run=a_run())


@pytest.mark.parametrize("step", ["", TEST_STEP], ids=["as compiled", "a test_step"])
def test_data_that_turns_out_to_be_empty_is_refused(tmp_path: Path, step: str) -> None:
    evaluates = evaluation(tmp_path, of(EMPTY["a filter"]), step, compiled="'sgd', 'mse'")

    with pytest.raises(BadConfigurationError, match=r"evaluation data of .*mine.py is empty: "):
        evaluates.metrics()


def test_each_member_validates_all_of_the_data(tmp_path: Path) -> None:
    sharded = "tf.data.Dataset.range(8).shard(c.input_pipelines, c.input_pipeline).batch(4)"
    task = mine(tmp_path, of(sharded))
    saved = saved_with(task, tmp_path, bias=0.0)

    second = Context(input_pipelines=2, input_pipeline=1)
    validates = validation.Validation(task, second, "evaluation", run=a_run())
    assert validates.metrics(saved) == {"val_loss": 17.5, "val_mae": 3.5}


def test_a_garbled_list_of_checkpoints_is_waited_for(tmp_path: Path) -> None:
    task = mine(tmp_path)
    (tmp_path / "checkpoint").touch()
    told = {"TFTRAINING_CHECKPOINT_DIR": str(tmp_path)}
    job, run = Job(arguments.parse([f"--task={task.name}"]), environment.read(told)), a_run()
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(evaluator.evaluate, job, run)
        wait([ends], timeout=2)
        run.stop.set()
        with pytest.raises(TerminatedError):
            ends.result()


def test_a_damaged_checkpoint_is_told_once_and_tried_again_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(evaluator, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(evaluator, "_AGAIN_SECONDS", 0.1)
    reads, read = [], checkpoints.read
    monkeypatch.setattr(checkpoints, "read", lambda *args: (reads.append(args), read(*args))[1])
    (tmp_path / "mine.py").write_text(TASK.replace("{compiled}", "'sgd', 'mse'"))
    task, folder = load(str(tmp_path / "mine.py")), tmp_path / "checkpoints"
    trained = model.build(task, Context(), task.dataset("evaluation", Context()))
    step = tf.Variable(7, dtype=tf.int64)
    saved = checkpoints.Checkpoints(str(folder), keep=3, model=trained, step=step)
    saved.save(7, Position(seed=1, batch_size=4, epoch_batches=2))
    (data,) = folder.glob("ckpt-7.data-*")
    whole = data.read_bytes()
    data.write_bytes(whole[:-8])

    told = {"TFTRAINING_CHECKPOINT_DIR": str(folder)}
    job = Job(arguments.parse([f"--task={tmp_path}/mine.py"]), environment.read(told))
    run = Run(
        Progress(Snapshot(role=Role.EVALUATOR)), Watchdog(stall_seconds=60, first_step_seconds=60)
    )
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(evaluator.evaluate, job, run)
        wait([ends], timeout=2)
        times = len(reads)
        data.write_bytes(whole)
        wait([ends], timeout=2)
        run.stop.set()
        with pytest.raises(TerminatedError):
            ends.result()
    assert 2 < times < 6
    assert run.progress.snapshot.metrics == {"loss": 17.5}
    assert len([each for each in caplog.records if "skipping checkpoint" in each.message]) == 1
