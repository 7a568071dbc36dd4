"""What the evaluator computes: the task's test_step, or what compile() says; no loss made up."""

import os
import textwrap
from pathlib import Path

import pytest
from tftrainer import process
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError

process.prepare(os.environ)

from tftrainer import model  # noqa: E402 -- after what it reads is set
from tftrainer.evaluation import Evaluation  # noqa: E402
from tftrainer.task import load  # noqa: E402

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
        pytest.param([TRAIN_STEP], "'sgd'", {}, id="no loss"),
        pytest.param([TRAIN_STEP], "'sgd', metrics=['mae']", {"mae": 3.5}, id="metrics alone"),
        pytest.param([TRAIN_STEP, ADDED_LOSS], "'sgd'", {"loss": 0.5}, id="a loss of a layer"),
        pytest.param(
            [TRAIN_STEP, TEST_STEP], "'sgd'", {"loss": 3.5, "examples": 4.0}, id="a test_step"
        ),
        pytest.param(
            [TEST_STEP], "'sgd', 'mse', ['mae']", {"loss": 0.0, "examples": 4.0}, id="both"
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


def test_a_test_step_that_cannot_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadConfigurationError, match=r"test_step\(model, batch\) of .* returned None"
    ):
        evaluation(tmp_path, TRAIN_STEP, "def test_step(model, batch): return None")
    with pytest.raises(
        BadConfigurationError, match=r"test_step\(\) of .* takes 1 parameter; .*batch"
    ):
        evaluation(tmp_path, TRAIN_STEP, "def test_step(batch): return {}")
