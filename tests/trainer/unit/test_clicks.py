"""The recommender's data: what is promised of it is what its figures mean."""

import os

import numpy as np
import pytest
from tftrainer.runtime import process

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set

from bench.recommender.clicks import ROWS, auc, drawn  # noqa: E402


def batch(number: int, seed: int = 1) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    columns, clicks, probability = drawn(tf.constant(number, tf.int64), 20_000, seed)
    return (
        {name: each.numpy() for name, each in columns.items()},
        clicks.numpy(),
        probability.numpy(),
    )


def test_an_auc_counts_pairs() -> None:
    clicks = np.array([1, 0, 1, 0, 0], np.float32)
    scores = np.array([0.9, 0.8, 0.3, 0.2, 0.1], np.float32)

    pairs = [(a, b) for a in scores[clicks > 0] for b in scores[clicks == 0]]
    assert auc(clicks, scores) == pytest.approx(sum(a > b for a, b in pairs) / len(pairs))
    assert auc(clicks, clicks) == 1
    assert auc(clicks, -scores) == pytest.approx(1 - auc(clicks, scores))


def test_a_batch_is_the_same_each_time_and_another_one_is_not() -> None:
    first, again, other, held_out = batch(3), batch(3), batch(4), batch(3, seed=2)

    assert np.array_equal(first[0]["users"], again[0]["users"])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0]["users"], other[0]["users"])
    assert not np.array_equal(first[0]["users"], held_out[0]["users"])


def test_clicks_come_as_often_as_their_probabilities_say() -> None:
    columns, clicks, probability = batch(0)

    assert all(columns[name].min() >= 0 and columns[name].max() < ROWS[name] for name in ROWS)
    for low in np.arange(0, 1, 0.25):
        among = (low <= probability) & (probability < low + 0.25)
        assert clicks[among].mean() == pytest.approx(probability[among].mean(), abs=0.03)
