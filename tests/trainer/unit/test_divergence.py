"""A loss or weight that is no finite number ends the training, or is told of, as was asked for."""

import math
from datetime import UTC, datetime

import pytest
import tensorflow as tf
from tftrainer.config.arguments import OnNan
from tftrainer.errors import DivergedError
from tftrainer.exit_codes import ExitCode
from tftrainer.runtime.progress import SavedCheckpoint
from tftrainer.training.divergence import Divergence

SAVED = SavedCheckpoint(90, "/data/ckpt-90", datetime.now(UTC))


def model() -> tf.keras.Model:
    return tf.keras.Sequential(
        [tf.keras.layers.Input([2]), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)]
    )


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_training(loss: float) -> None:
    divergence = Divergence(model(), OnNan.STOP)
    divergence.begin(None)

    with pytest.raises(DivergedError, match=f"diverged: loss is {loss} at step 100") as error:
        divergence.judge_loss(100, {"accuracy": math.nan, "loss": loss}, SAVED)
    assert "The last finite checkpoint, /data/ckpt-90 (step 90), is kept." in str(error.value)
    assert error.value.code is ExitCode.DIVERGED == 77


def test_another_metric_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    divergence = Divergence(model(), OnNan.STOP)
    for step in (100, 200):
        divergence.judge_loss(step, {"precision": math.nan, "loss": 0.5}, None)

    assert caplog.messages == ["precision is nan at step 100"]


def test_training_continues_if_asked_to(caplog: pytest.LogCaptureFixture) -> None:
    trained = model()
    divergence = Divergence(trained, OnNan.CONTINUE)
    divergence.begin(None)
    divergence.judge_loss(100, {"loss": math.nan}, SAVED)
    assert divergence.may_save(100, SAVED)

    trained.layers[1].bias.assign([math.inf])
    assert not divergence.may_save(101, SAVED)
    assert not divergence.may_save(102, SAVED)
    name = trained.layers[1].bias.name.removesuffix(":0")
    assert caplog.messages == [
        "loss is nan at step 100",
        f"weight {name} is not finite at step 101: no checkpoint is saved",
    ]


def test_weights_that_are_not_finite_are_not_saved() -> None:
    trained = model()
    divergence = Divergence(trained, OnNan.STOP)
    divergence.begin(None)
    # Not trained: it may be anything.
    trained.layers[0].moving_mean.assign([math.nan, 0.0])
    assert divergence.may_save(5, None)

    trained.layers[1].kernel.assign([[0.0], [math.nan]])
    with pytest.raises(
        DivergedError, match=r"weight dense\w*/kernel is not finite at step 6"
    ) as error:
        divergence.may_save(6, None)
    assert "There is no checkpoint of finite weights." in str(error.value)


def test_what_is_not_finite_from_the_beginning_is_meant(caplog: pytest.LogCaptureFixture) -> None:
    trained = model()
    trained.layers[1].bias.assign([-math.inf])
    divergence = Divergence(trained, OnNan.STOP)
    divergence.begin(None)

    assert "bias is not finite before the first step: weights are not checked" in caplog.text
    assert divergence.may_save(1, None)


def test_a_checkpoint_that_is_not_finite_is_not_trained_on() -> None:
    trained = model()
    trained.layers[1].bias.assign([math.nan])
    divergence = Divergence(trained, OnNan.STOP)

    with pytest.raises(DivergedError, match="in checkpoint /data/ckpt-90 is not finite"):
        divergence.begin(SAVED)
