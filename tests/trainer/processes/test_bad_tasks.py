"""Every way to get a task wrong that only shows when it runs: one import of TensorFlow for all."""

import functools
import math
import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tftrainer.config.cluster import Role
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError, OutageError
from tftrainer.exit_codes import ExitCode
from tftrainer.runtime import process
from tftrainer.runtime.progress import Progress, Snapshot
from tftrainer.runtime.supervisor import Run
from tftrainer.runtime.watchdog import Watchdog

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer.data.length import measured  # noqa: E402
from tftrainer.user import model  # noqa: E402
from tftrainer.user.callbacks import Callbacks, wanted_by_fit, wanted_by_loop  # noqa: E402
from tftrainer.user.task import load  # noqa: E402

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
TEXTS = """
    def model():
        layers = tf.keras.layers
        made = tf.keras.Sequential([
            layers.Embedding(10, 4), layers.Conv1D(3, 5), layers.GlobalMaxPooling1D(),
            layers.Dense(1),
        ])
        made.compile(loss="mse", metrics=["mae"])
        return made

    def dataset(split, context):
        lengths = tf.data.Dataset.from_tensor_slices([5, 9, 7, 12])
        texts = lengths.map(lambda length: (tf.range(length) % 10, [1.0]))
        return texts.padded_batch(2, ([None], [1]))
"""
IMAGES = """
    def model():
        layers = tf.keras.layers
        made = tf.keras.Sequential([
            layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Conv2D(4, 3),
            layers.GlobalAveragePooling2D(), layers.Dense(3),
        ])
        made.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                     metrics=["accuracy"])
        return made

    def dataset(split, context):
        sizes = tf.data.Dataset.from_tensor_slices([8, 8, 16, 16])
        images = sizes.map(lambda size: (tf.zeros([size, 2 * size, 3]), 1))
        return images.batch(2)
"""
TWO_OUTPUTS = """
    def model():
        features = tf.keras.Input([2])
        outputs = [tf.keras.layers.Dense(3, name=name)(features) for name in ("kind", "place")]
        made = tf.keras.Model(features, outputs)
        made.compile(
            loss={"kind": "sparse_categorical_crossentropy", "place": "mse"},
            metrics={"kind": "accuracy", "place": "mae"},
        )
        return made

    def dataset(split, context):
        labels = {"kind": tf.zeros([8, 1], tf.int32), "place": tf.zeros([8, 3])}
        return tf.data.Dataset.from_tensor_slices((tf.zeros([8, 2]), labels)).batch(4)
"""
ONLY_IN_TRAINING = """
    class Regularized(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.noise, self.output_layer = tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)

        def call(self, features, training=False):
            if training:
                features = features + self.noise(features)
            return self.output_layer(features)

    def model():
        made = Regularized()
        made.compile("adam", "mse")
        return made

    def dataset(split, context):
        return tf.data.Dataset.from_tensor_slices((tf.ones([8, 2]), tf.ones([8, 1]))).batch(4)
"""
LOSSES_OF_LAYERS = """
    class Autoencoder(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.code, self.decoded = tf.keras.layers.Dense(1), tf.keras.layers.Dense(2)

        def call(self, features, training=False):
            outputs = self.decoded(self.code(features))
            if training or not WHEN:
                self.add_loss(tf.reduce_mean((features - outputs) ** 2))
            return outputs

    def model():
        made = Autoencoder()
        made.compile("adam")
        return made

    def dataset(split, context):
        return tf.data.Dataset.from_tensor_slices((tf.ones([8, 2]), tf.ones([8, 2]))).batch(4)
"""
KNOWN_WORDS = """
    COLORS, SIZES = ["red", "green"], [38, 40]

    def model():
        layers = tf.keras.layers
        color = layers.Input([1], name="color", dtype=tf.string)
        size = layers.Input([1], name="size", dtype=tf.int64)
        known = [
            layers.StringLookup(vocabulary=COLORS, num_oov_indices=0, output_mode="one_hot")(color),
            layers.IntegerLookup(vocabulary=SIZES, num_oov_indices=0, output_mode="one_hot")(size),
        ]
        made = tf.keras.Model([color, size], layers.Dense(1)(layers.Concatenate()(known)))
        made.compile("adam", "mse", ["mae"])
        return made

    def dataset(split, context):
        features = {"color": [[each] for each in COLORS], "size": tf.constant(SIZES)[:, None]}
        return tf.data.Dataset.from_tensor_slices((features, tf.ones([2, 1]))).batch(2)
"""
PARSED = """
    class Parsed(tf.keras.layers.Layer):
        def call(self, texts):
            return tf.strings.to_number(texts)

    def model():
        made = tf.keras.Sequential([Parsed(), tf.keras.layers.Dense(1)])
        made.compile("adam", "mse")
        return made

    def dataset(split, context):
        features = tf.constant([["1.5", "2"], ["3", "4e2"]])
        return tf.data.Dataset.from_tensor_slices((features, tf.ones([2, 1]))).batch(2)
"""
TWO_OPTIMIZERS = """
    def model():
        wide, deep = tf.keras.experimental.LinearModel(), tf.keras.layers.Dense(1)
        made = tf.keras.experimental.WideDeepModel(wide, tf.keras.Sequential([deep]))
        made.compile(["sgd", "adam"], "mse", ["mae"])
        return made
"""
NO_CALL = """
    class Pair(tf.keras.Model):
        def __init__(self, one, other):
            super().__init__()
            self.one, self.other = one, other

        def compile(self, other_optimizer):
            super().compile("adam")
            self.other_optimizer = other_optimizer

        def train_step(self, batch):
            features, labels = batch
            losses = {}
            for part, optimizer in ((self.one, self.optimizer), (self.other, self.other_optimizer)):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((part(features, training=True) - labels) ** 2)
                optimizer.minimize(loss, part.trainable_variables, tape=tape)
                losses[part.name] = loss
            return losses

    def model():
        layers = tf.keras.layers
        parts = [
            tf.keras.Sequential([layers.Input([2]), layers.Dense(1)], name=name)
            for name in ("one", "other")
        ]
        made = Pair(*parts)
        made.compile(tf.keras.optimizers.Adam())
        return made
"""
STEP_OF_TWO = """
    def train_step(model, batch):
        features, labels = batch
        with tf.GradientTape() as tape:
            kind, place = model(features, training=True)
            loss = tf.reduce_mean((place - labels["plaice"]) ** 2)
        model.optimizer.minimize(loss, model.layers[-1].trainable_variables, tape=tape)
        return {"loss": loss}
"""
HINTED = """
    def dataset(split, context):
        data = tf.data.Dataset.from_tensor_slices((tf.zeros([8, 2]), tf.zeros([8, 1])))
        data = data.SHARD.batch(4)
        options, auto = tf.data.Options(), tf.data.experimental.AutoShardPolicy
        options.experimental_distribute.auto_shard_policy = auto.HINT
        return data.with_options(options)
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
    measured(task, context, dataset, None, patience=60)
    run = Run(Progress(Snapshot(Role.CHIEF)), Watchdog(stall_seconds=1, first_step_seconds=1))
    own = wanted_by_loop(task, context)
    Callbacks(own, built, run=run, epochs=1, steps_per_epoch=2, of_any=bool)
    return Prepared(built, step, dataset)


# Sums of two strategies of one process would be taken for each other.
@functools.cache
def mirrored(devices: int) -> Any:
    cpus = [f"/cpu:{index}" for index in range(devices)]
    return tf.distribute.MirroredStrategy(cpus) if devices > 1 else tf.distribute.get_strategy()


def with_step(body: str, parameters: str = "model, batch") -> tuple[str, ...]:
    return GOOD_MODEL, GOOD_DATASET, f"def train_step({parameters}): {body}"


def with_callbacks(body: str) -> tuple[str, ...]:
    return GOOD_MODEL, GOOD_DATASET, f"def callbacks(context): {body}"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        pytest.param(
            ("import nothing_like_it",),
            "No module named 'nothing_like_it'.*mine.py, line 2.*nothing_like_it is neither in the "
            "image nor beside the task: use an image that has it",
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
        *(
            pytest.param(
                (GOOD_MODEL, HINTED.replace("SHARD", shard)),
                "has AutoShardPolicy.HINT, which is not supported",
                id=f"a policy of hints and {shard}",
            )
            for shard in ("take(8)", "shard(*[tf.data.experimental.SHARD_HINT] * 2)")
        ),
        pytest.param(
            (GOOD_MODEL, GOOD_DATASET.replace("[8,", "[0,")),
            "is empty: it has no examples, or a filter drops all of them",
            id="empty",
        ),
        pytest.param(
            (
                GOOD_MODEL,
                GOOD_DATASET.replace(
                    ".batch(context.batch_size)",
                    ".take(3).batch(context.batch_size, drop_remainder=True)",
                ),
            ),
            "is empty: it has no examples, or a filter drops all of them. So it is where they are "
            "fewer than a batch of 4, which drop_remainder=True drops: lower --batch-size",
            id="fewer examples than a whole batch",
        ),
        pytest.param(
            (
                GOOD_MODEL,
                GOOD_DATASET.replace("_size)", "_size).map(lambda *pair: (*pair, None))"),
            ),
            "has None in its elements: leave weights out that there are none of, and give zeros",
            id="weights that are None",
        ),
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
        pytest.param(
            (TWO_OUTPUTS.replace('"place": tf.zeros', '"plaice": tf.zeros'),),
            r"the labels of the dataset of .*mine.py \('kind', 'plaice'\) do not fit the outputs "
            r"of its model \(float32\[1, 3\], float32\[1, 3\]\): .*Valid mode output names: "
            r"\['kind', 'place'\]",
            id="labels of no output",
        ),
        pytest.param(
            (IMAGES.replace("GlobalAveragePooling2D", "Flatten"),),
            r"cannot take what its dataset gives, batches of \(float32\[None, None, None, 3\], "
            r"int32\[None\]\): ValueError: The last dimension of the inputs to a Dense layer ",
            id="a model that needs to know the size",
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
            ("import sys\n", GOOD_MODEL, GOOD_DATASET, "sys.exit(2)"),
            r"cannot be imported: SystemExit: 2 \(.*mine\.py, line \d+\)\. A task is imported",
            id="a script that ends itself",
        ),
        pytest.param(
            with_step("return model.no_such_thing"),
            r"train_step\(model, batch\) of .* fails with batches of \(float32\[None, 2\], "
            r"float32\[None, 1\]\): AttributeError: .*no_such_thing' \(.*mine.py, line \d+\)$",
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
            (TWO_OUTPUTS.replace('"place": tf.zeros', '"plaice": tf.zeros'), STEP_OF_TWO),
            id="a step that uses labels of its own",
        ),
        pytest.param((TWO_OPTIMIZERS, GOOD_DATASET), id="two optimizers"),
        pytest.param((NO_CALL, GOOD_DATASET), id="a step of parts of a model without call()"),
        pytest.param((TEXTS,), id="texts, padded to the longest of each batch"),
        pytest.param((IMAGES,), id="images of any size"),
        pytest.param((TWO_OUTPUTS,), id="a list of outputs, and labels by their names"),
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
@pytest.mark.parametrize(
    "task",
    [
        TEXTS,
        IMAGES,
        TWO_OUTPUTS,
        ONLY_IN_TRAINING,
        f"WHEN = False\n{textwrap.dedent(LOSSES_OF_LAYERS)}",
        f"WHEN = True\n{textwrap.dedent(LOSSES_OF_LAYERS)}",
        KNOWN_WORDS,
        PARSED,
    ],
    ids=[
        "texts",
        "images",
        "outputs",
        "a layer that only training calls",
        "losses of layers alone",
        "losses of layers in training alone",
        "words that are all known",
        "numbers as texts",
    ],
)
def test_what_is_built_from_shapes_alone_can_be_trained(
    tmp_path: Path, task: str, devices: int
) -> None:
    strategy = mirrored(devices)
    with strategy.scope():
        made = prepared(tmp_path, task)
    before = [weight.numpy() for weight in made.model.trainable_variables]

    step = tf.function(lambda batch: strategy.run(made.step, args=(batch,)))
    for batch in strategy.experimental_distribute_dataset(made.dataset):
        step(batch)

    assert math.isfinite(model.metrics(made.model)["loss"])
    assert len(before) == len(made.model.trainable_variables) > 0
    assert made.model.metrics_names[0] == "loss"


@pytest.mark.parametrize(
    "raised",
    [
        "tf.errors.UnavailableError(None, None, 'the storage is away')",
        "ConnectionRefusedError('no answer')",
    ],
)
@pytest.mark.parametrize("function", ["model()", "dataset(split, context)", "callbacks(context)"])
def test_what_is_unavailable_is_no_mistake_of_the_task(
    tmp_path: Path, function: str, raised: str
) -> None:
    fails = f"def {function}: raise {raised}"
    with pytest.raises(OutageError, match=r"mine.py raised .*\(.*mine.py, line \d+\)") as error:
        prepared(tmp_path, GOOD_MODEL, GOOD_DATASET, fails)

    assert error.value.code is ExitCode.PEERS_UNAVAILABLE


def test_a_server_lost_while_a_step_is_traced_is_no_mistake_of_the_task(tmp_path: Path) -> None:
    lost = "raise tf.errors.UnavailableError(None, None, 'a server is gone')"
    with pytest.raises(tf.errors.UnavailableError):
        prepared(tmp_path, *with_step(lost))


@pytest.mark.parametrize("devices", [1, 2])
def test_xla_is_used_as_compile_says_where_it_can_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, devices: int
) -> None:
    strategy = mirrored(devices)
    with strategy.scope():
        made = prepared(
            tmp_path, GOOD_MODEL.replace('"mse"', '"mse", jit_compile=True'), GOOD_DATASET
        )
        step = model.compiled(made.model, made.step)
    run = tf.function(lambda batch: strategy.run(step, args=(batch,)))
    batch = next(iter(strategy.experimental_distribute_dataset(made.dataset)))
    run(batch)

    nodes = run.get_concrete_function(batch).graph.as_graph_def().node
    assert any("_XlaMustCompile" in node.attr for node in nodes) == (devices == 1)
    assert ("jit_compile of compile() is ignored" in caplog.text) == (devices > 1)


@pytest.mark.parametrize(
    "optimizer",
    [
        "tf.keras.optimizers.SGD(use_ema=True)",
        "tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(use_ema=True))",
    ],
)
def test_averaged_weights_are_refused_with_what_to_do(tmp_path: Path, optimizer: str) -> None:
    with pytest.raises(BadConfigurationError, match="Remove use_ema=True") as error:
        prepared(tmp_path, GOOD_MODEL.replace('loss="mse"', f'{optimizer}, "mse"'), GOOD_DATASET)

    assert error.value.code is ExitCode.BAD_CONFIGURATION


def test_that_steps_never_run_eagerly_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = prepared(tmp_path, GOOD_MODEL.replace('"mse"', '"mse", run_eagerly=True'), GOOD_DATASET)

    assert model.compiled(made.model, made.step) is made.step
    assert "run_eagerly of compile() is ignored" in caplog.text
    assert not made.model.run_eagerly


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_train_step_returns_is_shown_as_means(tmp_path: Path, devices: int) -> None:
    strategy = mirrored(devices)
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


@pytest.mark.parametrize("asked", [wanted_by_loop, wanted_by_fit])
def test_the_callback_that_ends_training_on_nan_is_accepted_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, asked: Any
) -> None:
    caplog.set_level("INFO")
    task = load(write(tmp_path, *with_callbacks("return [tf.keras.callbacks.TerminateOnNaN()]")))

    assert asked(task, Context()) == []
    assert caplog.messages == [
        "callback TerminateOnNaN is not called: --on-nan sets what follows a loss of NaN"
    ]


def test_keras_fit_is_spared_what_it_cannot_call(tmp_path: Path) -> None:
    task = load(write(tmp_path, GOOD_MODEL, GOOD_DATASET, BATCH_HOOKS))

    with pytest.raises(BadConfigurationError, match="has Mine, which has per-batch hooks"):
        wanted_by_fit(task, Context())
