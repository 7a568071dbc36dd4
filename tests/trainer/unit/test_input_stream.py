"""The stream of batches is the same for all who read it, from any place, and new in each pass."""

import itertools
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import tensorflow as tf
from tftrainer import Context
from tftrainer.input_stream import InputStream
from tftrainer.task import UserTask

Data = Callable[[tf.data.Dataset], tf.data.Dataset]
N, BATCH = 50, 8
A_PASS = 7


def stream(shuffled: Data, seed: int = 3) -> InputStream:
    module = ModuleType("task")

    def dataset(split: str, context: Context) -> tf.data.Dataset:
        assert split == "train"
        ids = tf.data.Dataset.range(N).map(lambda i: (i, i))
        return shuffled(ids).batch(context.batch_size)

    module.dataset = dataset  # type: ignore[attr-defined]
    task = UserTask("task", module)
    return InputStream(task, Context(batch_size=BATCH, seed=seed), seed, tf.data.Options())


def read(data: tf.data.Dataset, batches: int) -> list[list[int]]:
    return [ids.numpy().tolist() for ids, _ in data.take(batches)]


ORDERS = [
    pytest.param(lambda ids: ids, id="unshuffled"),
    pytest.param(lambda ids: ids.shuffle(10), id="a small buffer, no seed"),
    pytest.param(lambda ids: ids.shuffle(N), id="a full buffer, no seed"),
    pytest.param(lambda ids: ids.shuffle(N, seed=5), id="a seed"),
    pytest.param(lambda ids: ids.shuffle(N, 5), id="by position"),
    pytest.param(lambda ids: ids.shuffle(N).shuffle(N), id="twice"),
    pytest.param(lambda ids: ids.shuffle(N, reshuffle_each_iteration=False), id="once for all"),
    pytest.param(
        lambda ids: tf.data.Dataset.sample_from_datasets([ids.shard(2, 0), ids.shard(2, 1)]),
        id="sampled",
    ),
]


@pytest.mark.parametrize("shuffled", ORDERS)
def test_two_readers_see_the_same_and_each_pass_all(shuffled: Data) -> None:
    one = read(stream(shuffled).batches(0, 0), 3 * A_PASS)
    other = read(stream(shuffled).batches(0, 0), 3 * A_PASS)

    assert one == other
    for number in range(3):
        of_pass = one[number * A_PASS : (number + 1) * A_PASS]
        assert sorted(itertools.chain(*of_pass)) == list(range(N))


@pytest.mark.parametrize("shuffled", ORDERS)
@pytest.mark.parametrize("place", [(0, 1), (0, 6), (1, 0), (1, 3), (2, 6)])
def test_from_any_place_the_same_follows(shuffled: Data, place: tuple[int, int]) -> None:
    data_pass, index = place
    whole = read(stream(shuffled).batches(0, 0), 4 * A_PASS)
    at = data_pass * A_PASS + index

    assert read(stream(shuffled).batches(data_pass, index), 5) == whole[at : at + 5]


@pytest.mark.parametrize("shuffled", [p.values[0] for p in ORDERS[1:6]])
def test_passes_differ_and_seeds_do(shuffled: Data) -> None:
    first, second = (read(stream(shuffled).batches(n, 0), A_PASS) for n in (0, 1))

    assert first != second
    assert read(stream(lambda ids: ids.shuffle(N), seed=4).batches(0, 0), A_PASS) != read(
        stream(lambda ids: ids.shuffle(N), seed=5).batches(0, 0), A_PASS
    )


def test_one_order_for_ever_is_kept_so_that_what_is_split_by_it_stays_apart() -> None:
    def split(ids: tf.data.Dataset) -> tf.data.Dataset:
        return ids.shuffle(N, seed=9, reshuffle_each_iteration=False)

    by_stream = read(stream(split).batches(3, 0), A_PASS)
    plain = [b.numpy().tolist() for b in split(tf.data.Dataset.range(N)).batch(BATCH)]
    assert by_stream == plain


PIPELINES: dict[str, Data] = {
    "map": lambda ids: ids.map(lambda i: (i, i)).batch(BATCH),
    "map, in parallel, prefetched": lambda ids: (
        ids.map(lambda i: (i, i), num_parallel_calls=4)
        .batch(BATCH, drop_remainder=True)
        .prefetch(2)
    ),
    "map of batches": lambda ids: ids.batch(batch_size=BATCH).map(lambda i: (i, i)),
    "shuffle, map": lambda ids: ids.shuffle(20).map(lambda i: (i, i)).batch(BATCH),
    "map, shuffle": lambda ids: ids.map(lambda i: (i, i)).shuffle(20).batch(BATCH),
    "two maps, two shuffles": lambda ids: (
        ids.map(lambda i: i).shuffle(9, seed=1).map(lambda i: (i, i)).shuffle(20).batch(BATCH)
    ),
    "another shuffle afterwards": lambda ids: tf.data.Dataset.zip(
        (ids.map(lambda i: i).shuffle(20), ids.shuffle(9))
    ).batch(BATCH),
    "filter": lambda ids: ids.filter(lambda i: i % 3 > 0).map(lambda i: (i, i)).batch(BATCH),
    "repeat": lambda ids: ids.map(lambda i: (i, i)).repeat(2).padded_batch(BATCH),
    "unbatched": lambda ids: ids.batch(5).map(lambda i: (i, i)).unbatch().batch(BATCH),
    "options": lambda ids: (
        ids.map(lambda i: (i, i)).batch(BATCH).with_options(tf.data.Options()).cache()
    ),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 4)])
def test_what_is_skipped_changes_nothing_of_what_follows(
    pipeline: Data, place: tuple[int, int]
) -> None:
    data_pass, index = place
    of_pass = whole(pipeline).batches(data_pass, 0)
    batches = int(whole(pipeline).task.dataset("train", Context()).cardinality())
    batches = batches if batches > 0 else 5
    expected = [(a.numpy().tolist(), b.numpy().tolist()) for a, b in of_pass.take(batches)]

    rest = whole(pipeline).batches(data_pass, index).take(batches - index)
    assert [(a.numpy().tolist(), b.numpy().tolist()) for a, b in rest] == expected[index:]


@pytest.mark.parametrize(
    "name",
    [
        *("map", "map, in parallel, prefetched", "map of batches", "shuffle, map"),
        *("map, shuffle", "filter"),
    ],
)
def test_what_is_skipped_is_not_made(name: str) -> None:
    made: set[int] = set()

    def counted(ids: tf.data.Dataset) -> tf.data.Dataset:
        map_function = tf.data.Dataset.map

        def noting(i: np.ndarray) -> np.ndarray:
            made.update(i.flatten().tolist())
            return i

        def map_and_note(data: tf.data.Dataset, function: Data, **named: int) -> tf.data.Dataset:
            def both(i: tf.Tensor) -> tf.Tensor:
                noted = tf.ensure_shape(tf.numpy_function(noting, [i], tf.int64), i.shape)
                return function(noted)

            return map_function(data, both, **named)

        tf.data.Dataset.map = map_and_note
        try:
            return PIPELINES[name](ids)
        finally:
            tf.data.Dataset.map = map_function

    next(iter(whole(counted).batches(0, 4)))
    assert 0 < len(made) <= N - 4 * BATCH


def whole(pipeline: Data) -> InputStream:
    """A stream of a dataset that batches by itself."""
    module = ModuleType("task")
    module.dataset = lambda *_: pipeline(tf.data.Dataset.range(N))  # type: ignore[attr-defined]
    context = Context(batch_size=BATCH, seed=3)
    return InputStream(UserTask("task", module), context, 3, tf.data.Options())


def test_each_batch_has_its_number_and_place() -> None:
    numbers = tf.constant([1, 5, 12], tf.int64)
    made = stream(lambda ids: ids).numbered(*tf.unstack(numbers)).take(4)

    assert [(int(n), int(p), int(i)) for n, (i, p, _) in made] == [
        (12, 1, 5),
        (13, 1, 6),
        (14, 2, 0),
        (15, 2, 1),
    ]
    ids = [batch[0].numpy().tolist() for _, (_, _, batch) in made]
    assert ids[0] == list(range(40, 48))


def test_functions_of_the_dataset_are_converted_as_always() -> None:
    def odd_are_zero(ids: tf.data.Dataset) -> tf.data.Dataset:
        def change(i: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            if i % 2 == 1:
                return tf.constant(0, tf.int64), label
            return i, label

        return ids.map(change)

    assert read(stream(odd_are_zero).batches(0, 0), 1) == [[0, 0, 2, 0, 4, 0, 6, 0]]


def test_shuffle_is_tensorflows_own_again_afterwards() -> None:
    before = tf.data.Dataset.shuffle
    read(stream(lambda ids: ids.shuffle(3)).batches(0, 0), 1)

    assert tf.data.Dataset.shuffle is before
    orders = {tuple(tf.data.Dataset.range(N).shuffle(N).as_numpy_iterator()) for _ in range(3)}
    assert len(orders) > 1
    assert np.all([sorted(order) == list(range(N)) for order in orders])
