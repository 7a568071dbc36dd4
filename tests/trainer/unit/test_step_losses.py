"""The loss of one step, which is no mean over the steps before it."""

import math

import pytest
import tensorflow as tf
from tftrainer.training.step_losses import returning_loss


def model() -> tf.keras.Model:
    made = tf.keras.Sequential(
        [tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    made.compile(tf.keras.optimizers.SGD(0.0), "mse")
    made.optimizer.build(made.trainable_variables)
    return made


def batch(label: float) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.ones([2, 1]), tf.fill([2, 1], label)


def test_keras_own_step_returns_the_loss_of_its_batch_alone() -> None:
    trained = model()
    step = tf.function(returning_loss(trained, trained.train_step))

    assert [float(step(batch(label))) for label in (1.0, 2.0, 3.0)] == [1.0, 4.0, 9.0]
    assert step(batch(1.0)).dtype == tf.float32


@pytest.mark.parametrize(
    ("returned", "wanted"),
    [
        pytest.param({"loss": 0.25}, 0.25, id="what it calls loss"),
        pytest.param({"accuracy": 0.25}, math.nan, id="nothing"),
    ],
)
def test_a_step_of_the_users_own_is_asked_for_its_loss(returned: dict, wanted: float) -> None:
    step = returning_loss(model(), lambda _: returned)

    assert float(step(batch(1.0))) == pytest.approx(wanted, nan_ok=True)
