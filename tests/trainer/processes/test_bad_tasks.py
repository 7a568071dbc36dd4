"""Every way to get a task wrong that only shows when it runs: one import of TensorFlow for all."""

import os
import textwrap
from pathlib import Path

import pytest
from tftrainer import process
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError

process.prepare(os.environ)

from tftrainer import model  # noqa: E402 -- imports TensorFlow, after what it reads is set
from tftrainer.task import load  # noqa: E402

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


def prepared(folder: Path, *parts: str) -> object:
    """What the trainer does with a task before its first step."""
    source = "import tensorflow as tf\n" + "".join(textwrap.dedent(part) for part in parts)
    (folder / "mine.py").write_text(source)
    task = load(str(folder / "mine.py"))
    context = Context(batch_size=4)
    dataset = task.dataset("train", context)
    model.total_steps(task, dataset, 1, None)
    return model.build(task, context, dataset)


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
            (GOOD_MODEL, "def dataset(split): ..."), "takes 1 parameter", id="too few parameters"
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
            ("import keras", "\ndef model(): return keras.Sequential()", GOOD_DATASET),
            "Keras 3 model .*write `import tensorflow as tf`",
            id="a Keras 3 model",
        ),
        pytest.param(
            ("def model(): return tf.keras.Sequential()", GOOD_DATASET),
            "not compiled, and there is no `loss`",
            id="not compiled",
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
            (GOOD_MODEL, "def dataset(split, context): return tf.data.Dataset.range(3)"),
            r"\(features, labels\)",
            id="no labels",
        ),
        pytest.param(
            (GOOD_MODEL, GOOD_DATASET.replace(").batch(", ").repeat().batch(")),
            "no known length",
            id="without an end",
        ),
        pytest.param((GOOD_MODEL, GOOD_DATASET.replace("[8,", "[0,")), "is empty", id="empty"),
        pytest.param(
            (MODEL_OF_FIVE, GOOD_DATASET),
            r"cannot take what its dataset gives \(float32\[None, 2\], float32\[None, 1\]\)",
            id="shapes that do not fit",
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
    ],
)
def test_a_good_task_is_built(tmp_path: Path, parts: tuple[str, ...]) -> None:
    built = prepared(tmp_path, *parts)

    assert built.built
    assert built.optimizer is not None
