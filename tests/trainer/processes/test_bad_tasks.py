"""Every way to get a task wrong that only shows when it runs: one import of TensorFlow for all."""

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tftrainer import process
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer import model  # noqa: E402
from tftrainer.callbacks import Callbacks, wanted_by_fit  # noqa: E402
from tftrainer.task import load  # noqa: E402

CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)

GOOD_MODEL = """
    def model():
        made = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        made.compile(loss="mse")
        return made
"""
GOOD_DATASET = """
    def dataset(split, context):
        data = tf.zeros([8, 2]), tf.zeros([8, 1])
        return tf.data.Dataset.from_tensor_slices(data).batch(context.batch_size)
"""
MODEL_OF_FIVE = """
    def model():
        made = tf.keras.Sequential([tf.keras.layers.Input([5])])
        made.compile(loss="mse")
        return made
"""
MODEL_OF_CLASSES = """
    def model():
        made = tf.keras.Sequential([tf.keras.layers.Dense(3)])
        made.compile(loss="categorical_crossentropy")
        return made
"""
LOSS_BESIDE = """
    def model(context):
        return tf.keras.Sequential([tf.keras.layers.Dense(1)])

    loss = "mse"
"""
OLDER_OPTIMIZER = (
    LOSS_BESIDE
    + """
    def optimizer():
        return tf.keras.optimizers.legacy.SGD(0.1)
"""
)
NO_LOSS = """
    def model():
        return tf.keras.Sequential([tf.keras.layers.Dense(1)])
"""
OWN_STEP = """
    def train_step(model, batch):
        features, labels = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(features, training=True) - labels) ** 2)
            if loss > 1e9:  # of a tensor: AutoGraph has to convert this function
                loss = tf.zeros_like(loss)
        model.optimizer.minimize(loss, model.trainable_variables, tape=tape)
        return {"loss": loss, "doubled": 2 * loss}
"""
OWN_CLASS = """
    class Mine(tf.keras.Sequential):
        def train_step(self, batch):
            return 3

    def model():
        made = Mine([tf.keras.layers.Dense(1)])
        made.compile(loss="mse")
        return made
"""
NOT_READABLE = """
    def broken():
        yield tf.ones([3]), tf.ones([3])
        raise OSError("no such disk")

    def dataset(split, context):
        kinds = tf.float32, tf.float32
        return tf.data.Dataset.from_generator(broken, kinds).skip(1).repeat(2)
"""


@dataclass
class Prepared:
    model: Any
    step: Any
    dataset: Any


def write(folder: Path, *parts: str) -> str:
    source = "import tensorflow as tf\n" + "".join(textwrap.dedent(part) for part in parts)
    (folder / "mine.py").write_text(source)
    return str(folder / "mine.py")


def prepared(folder: Path, *parts: str) -> Prepared:
    """What the trainer does with a task before its first step."""
    task = load(write(folder, *parts))
    context = Context(batch_size=4)
    dataset = task.dataset("train", context)
    built = model.build(task, context, dataset)
    step = model.step_function(task, built, dataset)
    model.total_steps(task, dataset, 1, None)
    Callbacks.of(task, context, built, epochs=1, steps_per_epoch=2)
    return Prepared(built, step, dataset)


def with_step(body: str, parameters: str = "model, batch") -> tuple[str, ...]:
    return GOOD_MODEL, GOOD_DATASET, f"def train_step({parameters}): {body}"


def with_callbacks(body: str) -> tuple[str, ...]:
    return GOOD_MODEL, GOOD_DATASET, f"def callbacks(context): {body}"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        pytest.param(
            ("import nothing_like_it",),
            "No module named 'nothing_like_it'.*mine.py, line 2",
            id="an import that fails",
        ),
        pytest.param(("model = 3", GOOD_DATASET), "model of .* is int", id="model is a number"),
        pytest.param(
            ("def model(a, b): ...", GOOD_DATASET), "takes 2 parameters", id="too many parameters"
        ),
        pytest.param(
            (GOOD_MODEL, "def dataset(split): ..."), "takes 1 parameter;", id="too few parameters"
        ),
        pytest.param(
            ("def model(): return None", GOOD_DATASET), "returned None", id="nothing returned"
        ),
        pytest.param(
            ("def model(): return tf.keras.layers.Dense(1)", GOOD_DATASET),
            "tf_keras.*Dense; it must return a tf.keras model",
            id="a layer",
        ),
        pytest.param(
            ("def model(): return tf.keras.Sequential", GOOD_DATASET),
            r"must return a tf.keras model.* Call it: Sequential\(\.\.\.\)",
            id="a class of models",
        ),
        pytest.param(
            ("import keras", "\ndef model(): return keras.Sequential()", GOOD_DATASET),
            "Keras 3 model .*write `import tensorflow as tf`",
            id="a Keras 3 model",
        ),
        pytest.param(
            (NO_LOSS, GOOD_DATASET), "not compiled, and there is no `loss`", id="not compiled"
        ),
        pytest.param(
            (GOOD_MODEL.replace('loss="mse"', '"sgd"'), GOOD_DATASET),
            "compiled without a loss; give compile",
            id="compiled without a loss",
        ),
        pytest.param(
            (NO_LOSS, "loss = 'guess'", GOOD_DATASET),
            "cannot take what its dataset gives.*guess",
            id="a loss that does not exist",
        ),
        pytest.param(
            (LOSS_BESIDE, "optimizer = 'guess'", GOOD_DATASET),
            "`loss` and `optimizer` of .*mine.py cannot be compiled.*guess",
            id="an optimizer that does not exist",
        ),
        pytest.param(
            ("def model(): return 1 / 0", GOOD_DATASET),
            r"model\(\) .* raised ZeroDivisionError.*mine.py, line 2",
            id="model raises",
        ),
        pytest.param(
            (GOOD_MODEL, "def dataset(split, context): return [1, 2]"),
            r"returned list; it must return a tf.data.Dataset",
            id="a list",
        ),
        pytest.param(
            (GOOD_MODEL, "def dataset(split, context): return open('there.csv')"),
            r"dataset\('train', context\) of .*mine.py raised FileNotFoundError: .*there.csv",
            id="dataset raises",
        ),
        pytest.param(
            (GOOD_MODEL, "def dataset(split, context): return tf.data.Dataset.range(3)"),
            r"\(features, labels\)",
            id="no labels",
        ),
        pytest.param(
            (GOOD_MODEL, GOOD_DATASET.replace(".batch(context.batch_size)", "")),
            r"gives single examples \(float32\[2\], float32\[1\]\).*batch\(context.batch_size\)",
            id="not batched",
        ),
        pytest.param(
            (GOOD_MODEL, GOOD_DATASET.replace("[8, 1]", "[8]").replace(".batch(", ".take(")),
            r"gives single examples \(float32\[2\], float32\[\]\)",
            id="not batched, with plain labels",
        ),
        pytest.param(
            (GOOD_MODEL, GOOD_DATASET.replace(").batch(", ").repeat().batch(")),
            "no known length",
            id="without an end",
        ),
        pytest.param((GOOD_MODEL, GOOD_DATASET.replace("[8,", "[0,")), "is empty", id="empty"),
        pytest.param(
            (GOOD_MODEL, NOT_READABLE),
            "the first batch of the dataset of .* cannot be read: .*no such disk",
            id="data that cannot be read",
        ),
        pytest.param(
            (MODEL_OF_FIVE, GOOD_DATASET),
            r"cannot take what its dataset gives, "
            r"batches of \(float32\[None, 2\], float32\[None, 1\]\)",
            id="features that do not fit the model",
        ),
        pytest.param(
            (MODEL_OF_CLASSES, GOOD_DATASET),
            r"loss and metrics of the model .* cannot take its outputs \(float32\[1, 3\]\) and .*"
            r"float32\[None, 1\].*are incompatible",
            id="labels that do not fit the outputs",
        ),
        pytest.param(with_step("...", "batch"), "takes 1 parameter;", id="train_step(batch)"),
        pytest.param(
            (GOOD_MODEL, GOOD_DATASET, "train_step = 3"),
            "train_step of .* is int; it must be a function",
            id="train_step is a number",
        ),
        pytest.param(
            with_step("return None"),
            r"train_step\(model, batch\) of .* returned None; it must return a dict of metrics",
            id="train_step returns nothing",
        ),
        pytest.param(
            with_step("return {'loss': batch[0]}"),
            r"returned {'loss': float32\[None, 2\]}; a metric has a name and one number",
            id="train_step returns no number",
        ),
        pytest.param(
            with_step("return {'loss': 'low'}"),
            r"returned {'loss': string\[\]}; a metric has a name and one number",
            id="train_step returns a word",
        ),
        pytest.param(
            with_step("return {0: 1.0}"), r"returned {0: ", id="train_step returns no names"
        ),
        pytest.param(
            with_step("return model.no_such_thing"),
            r"train_step\(model, batch\) of .* fails with batches of \(float32\[None, 2\].*"
            "mine.py.*no_such_thing",
            id="train_step raises",
        ),
        pytest.param(
            (OWN_CLASS, GOOD_DATASET),
            r"train_step\(batch\) of .* returned int; it must return a dict of metrics",
            id="an overridden train_step returns a number",
        ),
        pytest.param(
            with_callbacks("return None"),
            r"callbacks\(context\) of .* returned None; it must return a list",
            id="callbacks returns nothing",
        ),
        pytest.param(
            with_callbacks("return [print]"),
            "returned a list with builtin_function_or_method in it",
            id="callbacks returns a function",
        ),
        pytest.param(
            with_callbacks("return [tf.keras.callbacks.History]"),
            r"must be a tf.keras.callbacks.Callback. Call it: History\(",
            id="callbacks returns a class",
        ),
        pytest.param(
            with_callbacks("import keras; return [keras.callbacks.History()]"),
            "This one is of Keras 3. Instead of `import keras`",
            id="a Keras 3 callback",
        ),
        pytest.param(
            with_callbacks("raise OSError('full')"),
            r"callbacks\(context\) of .* raised OSError: full.*mine.py, line",
            id="callbacks raises",
        ),
        pytest.param(
            with_callbacks("return [tf.keras.callbacks.BackupAndRestore('there')]"),
            "BackupAndRestore: the trainer already saves and resumes",
            id="a second one to save and resume",
        ),
    ],
)
def test_a_bad_task_is_refused_with_what_to_do(
    tmp_path: Path, parts: tuple[str, ...], said: str
) -> None:
    with pytest.raises(BadConfigurationError, match=f"(?s){said}"):
        prepared(tmp_path, *parts)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((GOOD_MODEL, GOOD_DATASET), id="a compiled model"),
        pytest.param(
            (LOSS_BESIDE, GOOD_DATASET),
            id="a model that is told the context, and a loss beside it",
        ),
        pytest.param(
            (OLDER_OPTIMIZER, GOOD_DATASET),
            id="an optimizer of its own, of the older kind",
        ),
        pytest.param((NO_LOSS, OWN_STEP, GOOD_DATASET), id="a step that computes its own loss"),
        pytest.param(
            (GOOD_MODEL, GOOD_DATASET, "def callbacks(): return ()"), id="no callbacks at all"
        ),
    ],
)
def test_a_good_task_is_built(tmp_path: Path, parts: tuple[str, ...]) -> None:
    built = prepared(tmp_path, *parts).model

    assert built.built
    assert built.optimizer is not None


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_train_step_returns_is_shown_as_means(tmp_path: Path, devices: int) -> None:
    cpus = [f"/cpu:{index}" for index in range(devices)]
    strategy = tf.distribute.MirroredStrategy(cpus) if devices > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        made = prepared(tmp_path, NO_LOSS, OWN_STEP, GOOD_DATASET.replace("tf.zeros", "tf.ones"))
    batches = iter(strategy.experimental_distribute_dataset(made.dataset))

    for _ in range(2):
        tf.function(lambda batch: strategy.run(made.step, args=(batch,)))(next(batches))

    shown = model.metrics(made.model)
    assert shown["loss"] > 0
    assert shown["doubled"] == pytest.approx(2 * shown["loss"])
    made.model.reset_metrics()
    assert model.metrics(made.model) == {"loss": 0, "doubled": 0}


BATCH_HOOKS = """
    class Mine(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None): ...

    def callbacks(context):
        return [Mine(), tf.keras.callbacks.EarlyStopping()]
"""


def test_what_a_callback_will_miss_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepared(tmp_path, GOOD_MODEL, GOOD_DATASET, BATCH_HOOKS)

    assert "callback Mine has per-batch hooks, which are not called" in caplog.text
    assert "EarlyStopping monitors val_loss, which is never reported" in caplog.text
    assert "monitor='loss'" in caplog.text


def test_keras_fit_is_spared_what_it_cannot_call(tmp_path: Path) -> None:
    task = load(write(tmp_path, GOOD_MODEL, GOOD_DATASET, BATCH_HOOKS))

    with pytest.raises(BadConfigurationError, match="has Mine, which has per-batch hooks"):
        wanted_by_fit(task, Context())
