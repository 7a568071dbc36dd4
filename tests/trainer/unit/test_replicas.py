"""The shares of a batch that the devices of one worker train on."""

import pytest
import tensorflow as tf
from tftrainer.parameter_server.replicas import share


def shares(batch: tf.Tensor, replicas: int) -> list[tf.Tensor]:
    one = tf.function(lambda number: share(batch, number, replicas))
    return [one(tf.constant(number, tf.int64)) for number in range(replicas)]


@pytest.mark.parametrize(
    ("examples", "replicas", "sizes"),
    [(8, 2, [4, 4]), (10, 3, [3, 3, 4]), (3, 3, [1, 1, 1])],
)
def test_every_example_is_in_one_share(examples: int, replicas: int, sizes: list[int]) -> None:
    numbers = tf.range(examples)
    batch = (
        {"number": numbers, "words": tf.RaggedTensor.from_row_lengths(numbers, [1] * examples)},
        tf.sparse.from_dense(tf.eye(examples)),
    )
    made = shares(batch, replicas)

    assert [len(features["number"]) for features, _ in made] == sizes
    joined = [tf.concat([features[name] for features, _ in made], 0) for name in batch[0]]
    assert joined[0].numpy().tolist() == list(range(examples))
    assert joined[1].to_list() == [[number] for number in range(examples)]
    rows = [tf.sparse.to_dense(labels) for _, labels in made]
    assert tf.reduce_all(tf.concat(rows, 0) == tf.eye(examples))


def test_a_batch_of_fewer_examples_than_replicas_goes_to_each_whole() -> None:
    assert [part.numpy().tolist() for part in shares(tf.constant([7, 8]), 3)] == [[7, 8]] * 3
