"""The stream of batches is the same for all who read it, from any place, and new in each pass."""

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tftrainer import Context
from tftrainer.data.input_stream import InputStream
from tftrainer.data.machine import CYCLE_LENGTH
from tftrainer.data.read_batches import ReadBatches
from tftrainer.errors import BadConfigurationError
from tftrainer.parameter_server import shared_input
from tftrainer.user.task import UserTask

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


@pytest.fixture
def global_seed() -> Iterator[Callable[[int], None]]:
    yield tf.random.set_seed
    tf.random.set_seed(None)


@pytest.mark.parametrize("number", [0, 2**31 - 1])
@pytest.mark.parametrize("shuffled", ORDERS)
def test_a_global_seed_that_is_0_to_tensorflow_shuffles_as_any_other(
    shuffled: Data, number: int, global_seed: Callable[[int], None]
) -> None:
    global_seed(number)
    one, other = (read(stream(shuffled, seed=0).batches(0, 0), 2 * A_PASS) for _ in range(2))

    assert one == other
    for of_pass in (one[:A_PASS], one[A_PASS:]):
        assert sorted(itertools.chain(*of_pass)) == list(range(N))


def test_a_task_may_set_a_global_seed_of_0_itself() -> None:
    def seeded(ids: tf.data.Dataset) -> tf.data.Dataset:
        tf.random.set_seed(0)
        return ids.shuffle(N, seed=5)

    first, second = (read(stream(seeded).batches(n, 0), A_PASS) for n in (0, 1))
    assert first != second


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
    "cache": lambda ids: ids.map(lambda i: (i, i)).cache().shuffle(20).batch(BATCH),
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


NOT_MADE = [
    *("map", "map, in parallel, prefetched", "map of batches", "shuffle, map"),
    *("map, shuffle", "filter", "cache"),
]


@pytest.mark.parametrize("name", NOT_MADE)
def test_what_is_skipped_is_not_made(name: str) -> None:
    made, counted = counting(PIPELINES[name])
    next(iter(whole(counted).batches(0, 4)))
    assert 0 < len(made) <= N - 4 * BATCH


def counting(pipeline: Data) -> tuple[set[int], Data]:
    """The same pipeline, and the examples that its maps are called for."""
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
            return pipeline(ids)
        finally:
            tf.data.Dataset.map = map_function

    return made, counted


def whole(pipeline: Data) -> InputStream:
    """A stream of a dataset that batches by itself."""
    module = ModuleType("task")
    module.dataset = lambda *_: pipeline(tf.data.Dataset.range(N))  # type: ignore[attr-defined]
    context = Context(batch_size=BATCH, seed=3)
    return InputStream(UserTask("task", module), context, 3, tf.data.Options())


@pytest.mark.parametrize("shuffled", [p.values[0] for p in ORDERS[1:6]])
def test_what_begins_anew_has_an_order_of_its_own_that_all_members_agree_on(shuffled: Data) -> None:
    first, again, later = (
        read(stream(shuffled).begun_anew(number).take(A_PASS), A_PASS) for number in (3, 3, 4)
    )

    assert first == again
    assert first != later
    for of_pass in (first, later):
        assert sorted(itertools.chain(*of_pass)) == list(range(N))


def test_what_is_read_counts_by_its_pass() -> None:
    read = ReadBatches()
    batches = iter(stream(lambda ids: ids.filter(lambda i, _: i > BATCH)).batches(1, 4, read))
    for _ in range(A_PASS - 1):
        next(batches)

    counts = read.of_passes()
    assert counts[1] == 2
    assert counts[2] >= 4, "TensorFlow may have read ahead"


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


def lane(
    of_data: InputStream, first: int, step: int, batches: int, start: int = 0
) -> tf.data.Dataset:
    """Each `step`-th batch of the stream from number `first` on; `start` is that of pass 0."""
    data_pass, index = divmod(first - start, batches)
    place = (tf.constant(each, tf.int64) for each in (data_pass, index, first, step))
    return of_data.each(*place, batches=batches)


def lists(batch: tf.Tensor) -> object:
    return tf.nest.map_structure(lambda part: part.numpy().tolist(), batch)


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_lanes_together_are_the_stream(pipeline: Data, workers: int) -> None:
    batches = sum(1 for _ in pipeline(tf.data.Dataset.range(N)))
    length, start = 2 * batches + 1, 5
    expected = {
        start + at: (at % batches, at // batches, lists(batch))
        for at, batch in enumerate(whole(pipeline).batches(0, 0).take(length))
    }

    found = {}
    for worker in range(workers):
        made = lane(whole(pipeline), start + worker, workers, batches, start)
        for number, (index, of_pass, batch) in made.take(len(range(worker, length, workers))):
            found[int(number)] = (int(index), int(of_pass), lists(batch))
    assert found == expected


@pytest.mark.parametrize("name", NOT_MADE)
def test_what_is_in_the_lanes_of_others_is_not_made(name: str) -> None:
    batches = sum(1 for _ in PIPELINES[name](tf.data.Dataset.range(N)))
    seen: list[set[int]] = []
    for worker in range(3):
        made, counted = counting(PIPELINES[name])
        own = len(range(worker, batches, 3))
        for _ in lane(whole(counted), worker, 3, batches).take(own):
            pass
        seen.append(made)

    assert all(seen)
    assert sum(map(len, seen)) == len(set.union(*seen)), "nothing was made by two workers"


def counted_by_hand(ids: tf.data.Dataset) -> int:
    number = 0
    for _ in ids:
        number += 1
    return number


LENGTHS: dict[str, Callable[[tf.data.Dataset], int]] = {
    "int": lambda ids: int(ids.cardinality()),
    "numpy": lambda ids: ids.cardinality().numpy(),
    "len": len,
    "for": counted_by_hand,
    "list": lambda ids: len(list(ids)),
    "as_numpy_iterator": lambda ids: len(list(ids.as_numpy_iterator())),
}


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_what_works_eagerly_alone_is_refused_with_what_to_do(
    length: Callable[[tf.data.Dataset], int],
) -> None:
    """Each of them works where the task is loaded."""

    def pipeline(ids: tf.data.Dataset) -> tf.data.Dataset:
        return ids.shuffle(length(ids)).map(lambda i: (i, i)).batch(BATCH)

    made = whole(pipeline)
    assert made.task.dataset("train", made.context).cardinality() == A_PASS
    for traced in (
        lambda: made.batches(0, 0),
        tf.function(made.repeated, autograph=False).get_concrete_function,
    ):
        with pytest.raises(
            BadConfigurationError,
            match=r"raised .*line \d+\). dataset\(\) is called again while TensorFlow traces it"
            r".*at the top of the module.*@functools.cache",
        ):
            traced()


def test_a_value_that_is_kept_from_the_first_call_can_be_used() -> None:
    length = functools.cache(lambda: int(tf.data.Dataset.range(N).cardinality()))
    made = whole(lambda ids: ids.shuffle(length()).map(lambda i: (i, i)).batch(BATCH))
    made.task.dataset("train", made.context)

    of_pass = read(made.batches(0, 0), A_PASS)
    assert sorted(itertools.chain(*of_pass)) == list(range(N))


def test_what_is_wrong_whenever_it_is_called_is_refused_as_it_is() -> None:
    with pytest.raises(BadConfigurationError, match=r"must return a tf\.data\.Dataset") as refused:
        whole(lambda _: None).batches(0, 0)
    assert "traces" not in str(refused.value)


def listed_by_python(_: tf.data.Dataset) -> tf.data.Dataset:
    listed = list(range(N))
    random.shuffle(listed)
    return tf.data.Dataset.from_tensor_slices(tf.constant(listed, tf.int64))


def listed_by_numpy(_: tf.data.Dataset) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.random.permutation(N))  # noqa: NPY002


@pytest.mark.parametrize("listed", [listed_by_python, listed_by_numpy])
def test_what_dataset_itself_draws_is_the_same_for_all_workers_and_restarts(listed: Data) -> None:
    """As Keras's image_dataset_from_directory draws the order of its files."""

    def pipeline(ids: tf.data.Dataset) -> tf.data.Dataset:
        return listed(ids).map(lambda i: (i, i)).batch(BATCH)

    one, other, third = (read(whole(pipeline).batches(0, 0), A_PASS) for _ in range(3))
    assert one == other == third
    assert sorted(itertools.chain(*one)) == list(range(N))


def test_what_others_draw_from_python_and_numpy_is_left_alone() -> None:
    drawn = []
    for asks in (False, True):
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        if asks:
            stream(lambda ids: listed_by_python(ids).map(lambda i: (i, i))).batches(0, 0)
        drawn.append((random.random(), np.random.random()))  # noqa: NPY002, S311
    assert drawn[0] == drawn[1]


def test_a_cache_in_a_file_is_not_written_so_that_none_is_left_unfinished(tmp_path: Path) -> None:
    def cached(ids: tf.data.Dataset) -> tf.data.Dataset:
        return ids.map(lambda i: (i, i)).cache(str(tmp_path / "cache")).shuffle(20).batch(BATCH)

    one, other = (iter(lane(whole(cached), worker, 2, A_PASS)) for worker in (0, 1))
    ids = [int(i) for each in (one, other, one, other) for i in next(each)[1][2][0]]

    assert len(set(ids)) == 4 * BATCH
    assert list(tmp_path.iterdir()) == []
    plain = cached(tf.data.Dataset.range(N))
    assert sum(len(batch[0]) for batch in plain) == N
    assert list(tmp_path.iterdir()), "cache() is TensorFlow's own again"


def test_files_are_dealt_out_in_an_order_that_all_workers_agree_on(tmp_path: Path) -> None:
    for number in reversed(range(5)):
        file = str(tmp_path / f"part-{number}.tfrecord")
        with tf.io.TFRecordWriter(file) as written:
            for record in range(10):
                written.write(str(10 * number + record).encode())
    context = Context(batch_size=4, seed=3)
    pattern = str(tmp_path / "part-*.tfrecord")

    def pipeline(_: tf.data.Dataset) -> tf.data.Dataset:
        records = context.files(pattern).interleave(tf.data.TFRecordDataset, cycle_length=2)
        known = records.apply(tf.data.experimental.assert_cardinality(50))
        decoded = known.map(lambda each: tf.strings.to_number(each, tf.int64))
        return decoded.map(lambda i: (i, i)).batch(4)

    assert int(pipeline(tf.data.Dataset.range(1)).cardinality()) == 13
    passes = []
    for number in range(3):
        of_pass = []
        for worker in range(3):
            own = lane(whole(pipeline), 13 * number + worker, 3, 13)
            for _, (_, at, (ids, _)) in own.take(len(range(worker, 13, 3))):
                assert int(at) == number
                of_pass += ids.numpy().tolist()
        passes.append(of_pass)
        assert sorted(of_pass) == list(range(50))
    assert passes[0] != passes[1] or passes[1] != passes[2]
    listed = [name.decode() for name in context.files(pattern, shuffle=False).as_numpy_iterator()]
    assert listed == sorted(map(str, tmp_path.iterdir()))


@pytest.mark.parametrize("pattern", ["/nowhere/*.tfrecord", ["/nowhere/a", "/nowhere/b"], []])
def test_a_pattern_that_matches_no_file_is_named(pattern: str | list[str]) -> None:
    names = r"/nowhere/\*.tfrecord|'/nowhere/a' or '/nowhere/b'|an empty list"
    with pytest.raises(BadConfigurationError, match=rf"no file matches .*({names}).*mount"):
        Context().files(pattern)


ELEMENTS: dict[str, Data] = {
    "a dict": lambda i: {"a": i, "b": (i, i + 1)},
    "a tuple of one": lambda i: (i,),
    "ragged": lambda i: tf.RaggedTensor.from_row_lengths(tf.range(i), [i]),
    "sparse": lambda i: tf.sparse.from_dense(tf.stack([i, 0])),
    "of any length": lambda i: tf.range(i % 3),
}


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_elements_of_any_form_are_dealt_out(element: Data) -> None:
    # Not by map, behind which it would be dealt.
    def pipeline(ids: tf.data.Dataset) -> tf.data.Dataset:
        made = ids.flat_map(lambda i: tf.data.Dataset.from_tensors(element(i)))
        return made.map(lambda *parts: (parts, 0))

    own = lane(whole(pipeline), 3, 7, N).take(4)
    every = list(whole(pipeline).batches(0, 0).take(N))
    for number, (_, _, found) in own:
        tf.nest.map_structure(
            np.testing.assert_array_equal,
            as_arrays(found),
            as_arrays(every[int(number)]),
        )


class Example(NamedTuple):
    features: tf.Tensor
    label: tf.Tensor


def test_a_stream_as_it_is_keeps_the_form_of_its_elements() -> None:
    for made in (lambda *parts: parts, Example):
        as_it_is = shared_input._as_it_is(stream(lambda ids, made=made: ids.map(made)))
        of_stream = stream(lambda ids, made=made: ids.map(made)).repeated()
        number, (index, of_pass, batch) = next(iter(as_it_is()))

        assert type(batch) is type(next(iter(of_stream)))
        assert len(batch) == 2
        assert (int(number), int(index), int(of_pass)) == (0, 0, 0)


def as_arrays(batch: tf.Tensor) -> object:
    return [part.numpy() for part in tf.nest.flatten(batch, expand_composites=True)]


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


@pytest.mark.parametrize(
    "said",
    [{}, {"cycle_length": tf.data.AUTOTUNE}, {"num_parallel_calls": tf.data.AUTOTUNE}],
    ids=["nothing", "as TensorFlow likes", "in parallel"],
)
def test_how_many_files_are_read_in_turn_does_not_depend_on_the_machine(
    said: dict[str, int],
) -> None:
    """TensorFlow would read as many as it has CPUs."""

    def of(**said: int) -> list[list[int]]:
        def in_turn(_: tf.data.Dataset) -> tf.data.Dataset:
            return tf.data.Dataset.range(N // 2).interleave(
                lambda n: tf.data.Dataset.range(2 * n, 2 * n + 2).map(lambda i: (i, i)), **said
            )

        return read(stream(in_turn).batches(0, 0), A_PASS)

    before = tf.data.Dataset.interleave
    assert of(**said) == of(cycle_length=CYCLE_LENGTH) != of(cycle_length=1)
    assert tf.data.Dataset.interleave is before


def test_functions_of_the_dataset_may_use_lookup_tables() -> None:
    def looked_up(ids: tf.data.Dataset) -> tf.data.Dataset:
        numbers = tf.range(N, dtype=tf.int64)
        known = tf.lookup.KeyValueTensorInitializer(numbers, 2 * numbers)
        table = tf.lookup.StaticHashTable(known, default_value=-1)
        return ids.map(lambda i, label: (table.lookup(i), label))

    first = read(stream(looked_up).batches(0, 0), A_PASS)
    assert list(itertools.chain(*first)) == list(range(0, 2 * N, 2))
