"""Makes the endless stream of batches that every process of a training reads alike.

The stream is pass after pass over the user's dataset. The order of a pass depends on the seed and
the number of the pass alone, not on who reads it or what was read before: that makes "the batches
after this one" the same for every worker and after every restart.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

# No public way to have unseeded data sets draw from a seed of ours; see _drawn_from.
from tensorflow.python.data.util import random_seed

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.data.machine import same_on_all_machines
from tftrainer.data.read_batches import ReadBatches
from tftrainer.data.traced_call import training_data
from tftrainer.data.unmade import Recording
from tftrainer.user.task import UserTask

_MIX = 1_000_003
_LAST = tf.int64.max
# TensorFlow takes the global seed modulo this.
_LARGEST_OF_GRAPH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class InputStream:
    """The stream of one task's training data."""

    task: UserTask
    context: Context
    seed: int
    options: Any
    """tf.data.Options of the user's dataset, which count for the whole stream."""

    def batches(
        self, data_pass: int, index: int, read: ReadBatches | None = None
    ) -> tf_types.Dataset:
        """Return the batches from this place on, which `read` counts."""

        def counted(
            of_pass: tf_types.Tensor, data: tf_types.Dataset, _: tf_types.Tensor
        ) -> tf_types.Dataset:
            return data if read is None else read.counted(of_pass, data)

        return self._passes(data_pass, index, counted)

    @property
    def is_shared(self) -> bool:
        """Whether the trainer deals the batches out; not if the dataset's sharding is off."""
        return self._policy is not tf.data.experimental.AutoShardPolicy.OFF

    @property
    def has_own_shards(self) -> bool:
        """Whether each member reads a shard that TensorFlow (FILE) or the dataset (OFF) makes."""
        policies = tf.data.experimental.AutoShardPolicy
        return self._policy in (policies.FILE, policies.OFF)

    @property
    def _policy(self) -> Any:  # noqa: ANN401
        return self.options.experimental_distribute.auto_shard_policy

    def repeated(self) -> tf_types.Dataset:
        """Return the dataset as it is, for ever: in an order that nobody knows beforehand."""
        return training_data(self.task, self.context).repeat()

    def begun_anew(self, number: int) -> tf_types.Dataset:
        """Return the dataset as it is, for ever: in an order that the seed and this number give."""
        with _drawn_from(self.seed, tf.constant(number, tf.int64)):
            return self.repeated()

    def numbered(
        self, data_pass: tf_types.Tensor, index: tf_types.Tensor, number: tf_types.Tensor
    ) -> tf_types.Dataset:
        """Return (number, (index, pass, batch)) from this place on, where the number is this one.

        All three are int64 without axes.
        """

        def placed(
            of_pass: tf_types.Tensor, data: tf_types.Dataset, skipped: tf_types.Tensor
        ) -> tf_types.Dataset:
            indices = tf.data.Dataset.range(skipped, _LAST)
            same = tf.data.Dataset.from_tensors(of_pass).repeat()
            return tf.data.Dataset.zip((indices, same, data))

        return self._passes(data_pass, index, placed).enumerate(start=number)

    def each(
        self,
        data_pass: tf_types.Tensor,
        index: tf_types.Tensor,
        number: tf_types.Tensor,
        step: tf_types.Tensor,
        *,
        batches: int,
    ) -> tf_types.Dataset:
        """Return the same, but each `step`-th batch alone: the others are not made.

        `batches` is the length of a pass.
        """
        # The number that the first batch of the first pass would have.
        first, origin = data_pass, number - index - data_pass * batches

        def placed(
            of_pass: tf_types.Tensor, data: tf_types.Dataset, skipped: tf_types.Tensor
        ) -> tf_types.Dataset:
            indices = tf.data.Dataset.range(skipped, _LAST, step)
            before = origin + of_pass * batches
            numbers = tf.data.Dataset.range(before + skipped, _LAST, step)
            same = tf.data.Dataset.from_tensors(of_pass).repeat()
            return tf.data.Dataset.zip((numbers, tf.data.Dataset.zip((indices, same, data))))

        def begun(of_pass: tf_types.Tensor) -> tf_types.Tensor:
            # As far into this pass as the batches of the passes before leave off.
            before = index - (of_pass - first) * batches
            return tf.where(of_pass == first, index, tf.math.floormod(before, step))

        return self._passes(data_pass, index, placed, begun=begun, step=step)

    def _passes(
        self,
        first: int | tf_types.Tensor,
        index: int | tf_types.Tensor,
        finish: Callable[..., tf_types.Dataset],
        *,
        begun: Callable[[tf_types.Tensor], tf_types.Tensor] | None = None,
        step: tf_types.Tensor | None = None,
    ) -> tf_types.Dataset:
        first, index = (tf.convert_to_tensor(each, tf.int64) for each in (first, index))

        recordings: list[Recording] = []

        def begun_at_first(of_pass: tf_types.Tensor) -> tf_types.Tensor:
            return tf.where(of_pass == first, index, tf.zeros_like(index))

        def one(of_pass: tf_types.Tensor) -> tf_types.Dataset:
            skipped = (begun or begun_at_first)(of_pass)
            made = Recording()
            recordings.append(made)
            with (
                same_on_all_machines(),
                _drawn_from(self.seed, of_pass) as draws,
                made.of_calls(draws.repeated),
            ):
                data = training_data(self.task, self.context)
                rest = made.kept(data, skipped, step)
            return finish(of_pass, rest, skipped)

        # Without AutoGraph, which would convert all that the user's function calls to load data;
        # what the user hands to Dataset.map is converted as always.
        unconverted = tf.__internal__.autograph.tf_convert(
            one, tf.__internal__.autograph.control_status_ctx(), convert_by_default=False
        )
        # repeat() never repeats; it tells TensorFlow that the stream is endless.
        passes = tf.data.Dataset.range(first, _LAST).flat_map(unconverted).repeat()
        passes = passes.with_options(self.options)
        return _unfused(passes) if any(each.looks_up for each in recordings) else passes


def _unfused(data: tf_types.Dataset) -> tf_types.Dataset:
    """Have TensorFlow not fuse map and batch: it fails where two maps use the same table.

    Of each call that is recorded there are two in the graph, of which one is not read.
    """
    options = tf.data.Options()
    options.experimental_optimization.map_and_batch_fusion = False
    return data.with_options(options)


class _Draws:
    """Numbers the data sets of a pass that have no seed of their own."""

    def __init__(self) -> None:
        self._drawn = 0

    def draw(self) -> int:
        """Return the next number."""
        self._drawn += 1
        return self._drawn - 1

    def repeated(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a wrapper which has a function draw the numbers again that come now."""
        now = self._drawn

        def wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401
                later, self._drawn = self._drawn, now
                try:
                    return function(*given, **named)
                finally:
                    self._drawn = later

            return call

        return wrapper


@contextmanager
def _drawn_from(base: int, of_pass: tf_types.Tensor) -> Iterator[_Draws]:
    """Have the data sets that are made in this block draw from a seed and the pass.

    Those without a seed of their own would differ from process to process, and those with one would
    be the same in every pass, since each pass is made anew.
    """
    get_seed, shuffle = random_seed.get_seed, tf.data.Dataset.shuffle
    unseeded = _Draws()

    def drawn(own: int | tf_types.Tensor | None) -> tuple[tf_types.Tensor, tf_types.Tensor]:
        if own is not None:
            with _seeded_by_no_0() if tf.is_tensor(own) else nullcontext():
                return get_seed(own)  # type: ignore[no-any-return]
        return tf.constant(base * _MIX + unseeded.draw(), tf.int64), of_pass + 1

    def shuffled(
        data: tf_types.Dataset,
        buffer_size: int,
        seed: int | tf_types.Tensor | None = None,
        reshuffle_each_iteration: bool | None = None,  # noqa: FBT001 -- TensorFlow's signature
        name: str | None = None,
    ) -> tf_types.Dataset:
        if reshuffle_each_iteration is False:
            # One order for ever, such as that of a set which is split by take and skip.
            seed = base if seed is None else seed
        elif seed is not None:
            seed = tf.cast(seed, tf.int64) * _MIX + of_pass
        return shuffle(data, buffer_size, seed, reshuffle_each_iteration, name)

    random_seed.get_seed, tf.data.Dataset.shuffle = drawn, shuffled
    try:
        with _drawn_alike_by_python(base):
            yield unseeded
    finally:
        random_seed.get_seed, tf.data.Dataset.shuffle = get_seed, shuffle


@contextmanager
def _drawn_alike_by_python(seed: int) -> Iterator[None]:
    """Have Python and NumPy draw alike in every process, in one that is restarted too.

    A list of files is often shuffled before it becomes a dataset; Keras's
    image_dataset_from_directory does so.
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 -- what users use
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002


@contextmanager
def _seeded_by_no_0() -> Iterator[None]:
    """Have the graph that is traced have no seed, if its seed is 0.

    Beside a seed of 0, TensorFlow compares the other one with 0 in Python, as a tensor cannot be.
    """
    graph = tf.compat.v1.get_default_graph()
    seed = graph.seed
    if seed is not None and seed % _LARGEST_OF_GRAPH == 0:
        graph.seed = None
    try:
        yield
    finally:
        graph.seed = seed
