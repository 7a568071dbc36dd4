"""How long epochs and passes are, in batches of the size that the dataset has."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import tensorflow as tf
from tftrainer import Context
from tftrainer.data.length import measured
from tftrainer.data.position import Length, Position
from tftrainer.user.task import UserTask

EXAMPLES = 96


def same(*batch: tf.Tensor) -> tuple[tf.Tensor, ...]:
    return batch


def one(*batch: tf.Tensor) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(batch)


def some(*_: object) -> tuple[tf.Tensor, ...]:
    """Return a batch whose size is not known before, as of one file."""
    size = tf.random.uniform([1], 8, 9, tf.int64)
    return tf.zeros(size), tf.zeros(size)


def length(batched: Callable[[tf.data.Dataset, int], tf.data.Dataset], told: int) -> Length:
    data = tf.data.Dataset.range(EXAMPLES).map(lambda i: (i, i))
    task = UserTask("task", ModuleType("task"))
    return measured(task, Context(batch_size=told), batched(data, told), 12, patience=60)


@pytest.mark.parametrize(
    ("batched", "size"),
    [
        pytest.param(lambda data, told: data.batch(told), 12, id="as it was told"),
        pytest.param(lambda data, _: data.batch(8).prefetch(1), 8, id="a size of its own"),
        pytest.param(lambda data, _: data.batch(8, drop_remainder=True), 8, id="whole batches"),
        pytest.param(
            lambda data, _: data.padded_batch(8).map(same, 4).map(same).prefetch(1),
            8,
            id="what maps have behind them",
        ),
        pytest.param(lambda data, _: data.batch(8).flat_map(one), 12, id="not known"),
        pytest.param(lambda data, _: data.map(some), 12, id="made by a map"),
        pytest.param(lambda data, _: data.window(8).map(some), 12, id="made of datasets"),
    ],
)
def test_the_size_of_batches_is_what_the_dataset_batches_with(
    batched: Callable[[tf.data.Dataset, int], tf.data.Dataset], size: int
) -> None:
    assert length(batched, told=12).batch_size == size


def test_nothing_is_left_out_where_a_dataset_has_batches_of_its_own_size() -> None:
    """As where a MultiWorkerMirrored job is scaled from three members to two."""
    before, after = (length(lambda data, _: data.batch(8), told) for told in (24, 16))
    reached = Position(seed=1, batch_size=before.batch_size, epoch_batches=before.of_epoch)
    reached = replace(reached, number=6, index=6)

    found = reached.fitted(
        batch_size=after.batch_size, epoch_batches=after.of_epoch, pass_batches=after.of_pass
    )

    assert (found.number, found.index) == (6, 6)
