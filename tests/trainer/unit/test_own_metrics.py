"""A model whose class says which metrics it has, as Keras's guides to train_step do."""

import pytest
import tensorflow as tf
from tftrainer.parameter_server.local_copies import metrics_of
from tftrainer.user import model


class Tracked(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)
        self.total = tf.keras.metrics.Mean(name="total_loss")

    @property
    def metrics(self) -> list[tf.keras.metrics.Metric]:
        return [self.total]

    def call(self, features: tf.Tensor) -> tf.Tensor:
        return self.dense(features)

    def train_step(self, batch: tf.Tensor) -> dict[str, tf.Tensor]:
        loss = tf.reduce_sum(batch)
        self.total.update_state(loss)
        return {"loss": loss, "total_loss": self.total.result()}


@pytest.fixture
def tracked() -> Tracked:
    made = Tracked()
    made.compile("sgd")
    return made


def test_what_its_step_returns_is_reported_until_the_metrics_are_reset(tracked: Tracked) -> None:
    step, names = model.with_means(tracked, tracked.train_step, "it", tf.TensorSpec([1]))
    for value in (1.0, 3.0):
        step(tf.constant([value]))

    assert names == {"loss", "total_loss"}
    assert model.metrics(tracked) == {"loss": 2.0, "total_loss": 2.0}
    tracked.reset_metrics()
    step(tf.constant([5.0]))
    assert model.metrics(tracked) == {"loss": 5.0, "total_loss": 5.0}


def test_what_its_step_returns_counts_over_all_workers(tracked: Tracked) -> None:
    model.with_means(tracked, tracked.train_step, "it", tf.TensorSpec([1]))

    names = [variable.name for variable in metrics_of(tracked)]
    assert sorted(names) == ["count:0", "count:0", "total:0", "total:0"]
