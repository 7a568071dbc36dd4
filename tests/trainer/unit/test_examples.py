"""What the examples judge by: it tells right from wrong."""

import pytest
import tensorflow as tf
from tftrainer.examples.both_ways.sums import possible_sums
from tftrainer.examples.embedding.report import bytes_by_device
from tftrainer.examples.exponential.reference import largest_difference
from tftrainer.examples.placement import mean
from tftrainer.examples.placement.comparison import Row

HERE, THERE = "/job:worker/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"


@pytest.mark.parametrize(
    ("row", "right"),
    [
        pytest.param(Row("x", 0.3, 0.3, HERE, HERE), True, id="same value, device as asked"),
        pytest.param(Row("x", 0.1 + 0.2, 0.3, HERE, HERE), False, id="the last bit differs"),
        pytest.param(Row("x", 0.3, 0.3, THERE, HERE), False, id="another device"),
    ],
)
def test_a_value_is_right_only_to_the_last_bit_and_in_its_place(row: Row, right: bool) -> None:  # noqa: FBT001
    assert row.is_right is right


@pytest.mark.parametrize(
    ("workers", "equal", "unequal"),
    [
        pytest.param(1, [10], [10], id="one"),
        pytest.param(3, [4, 3, 3], [1, 3, 6], id="three"),
        pytest.param(4, [3, 3, 2, 2], [1, 2, 3, 4], id="four"),
    ],
)
def test_slices_hold_every_example_once(workers: int, equal: list[int], unequal: list[int]) -> None:
    assert mean.equal_sizes(10, workers) == equal
    assert mean.unequal_sizes(10, workers) == unequal


@pytest.mark.parametrize(("workers", "sums"), [(1, {15}), (2, {9, 11, 15}), (3, {7, 8, 9, 11, 15})])
def test_what_five_functions_may_add_depends_on_how_many_share_them(
    workers: int, sums: set[int]
) -> None:
    assert possible_sums(workers) == sums


def test_the_difference_of_curves_is_that_of_their_worst_step() -> None:
    assert largest_difference([1.0, 0.11, 0.01], [1.0, 0.1, 0.01]) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="longer"):
        largest_difference([1.0], [1.0, 0.5])


def test_the_size_on_a_device_is_that_of_its_variables() -> None:
    table, bias = tf.Variable(tf.zeros([1000, 32])), tf.Variable(tf.zeros([3], tf.float64))
    assert list(bytes_by_device([table, bias]).values()) == [1000 * 32 * 4 + 3 * 8]
