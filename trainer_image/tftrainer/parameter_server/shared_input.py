"""Reads the batches with certain numbers on a worker; used by all modes.

Every worker has an iterator over the same stream, and drops what is for others. A worker that is
given numbers before the one at which its iterator stands, as after the loss of another, has its
iterator begin again where they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.batches import timed
from tftrainer.input_stream import InputStream
from tftrainer.position import Passes


@dataclass(frozen=True, slots=True)
class Read:
    """One batch, read in a tf.function."""

    batch: tf_types.Tensor
    waited: tf_types.Tensor
    """Seconds (float64, no axes)."""
    place: tf_types.Tensor
    """Its pass and its index in that pass (int64, [2])."""


class SharedInput:
    """The input of all workers."""

    def __init__(
        self,
        coordinator: tf_types.Coordinator,
        stream: InputStream,
        passes: Passes,
        *,
        is_copied: bool = False,
    ) -> None:
        """`is_copied` has a dataset made here and its graph copied, instead of one made there."""
        self._coordinator = coordinator
        self._is_copied = is_copied
        self._passes = passes
        self._is_dealt = stream.is_shared
        number = tf.TensorSpec([], tf.int64)
        # Traced once, although it is used in several graphs: it may hold all of the data.
        self._from = tf.function(
            stream.numbered if self._is_dealt else _as_it_is(stream),
            input_signature=[number] * 3,
            autograph=False,
        ).get_concrete_function()
        self._datasets = self._made()

    @property
    def spec(self) -> tf_types.TensorSpec:
        """The type of a worker's iterator."""
        return tf.data.IteratorSpec(self._datasets.element_spec)

    def iterators(self) -> tf_types.Iterator:
        """Make one iterator a worker, at the beginning of the stream: a per-worker value."""
        return iter(self._datasets)

    def _made(self) -> tf_types.Dataset:
        start = self._passes.start
        first = (start.data_pass, start.index, start.number)

        def of_one_worker() -> tf_types.Dataset:
            made = self._from(*(tf.constant(each, tf.int64) for each in first))
            return made.prefetch(tf.data.AUTOTUNE)

        if self._is_copied:
            return self._coordinator.create_per_worker_dataset(of_one_worker())
        function = tf.function(of_one_worker, autograph=False)
        return self._coordinator.create_per_worker_dataset(function)

    def read(
        self, iterator: tf_types.Iterator, number: tf_types.Tensor, after: tf_types.Tensor
    ) -> Read:
        """Read the batch of this number (int64, no axes); in a tf.function on a worker.

        `after` is of what comes before: waiting counts from when that is done.
        """
        element, waited = timed(lambda: self._sought(iterator, number), after)
        index, of_pass, batch = element[1]
        return Read(batch, waited, tf.stack([of_pass, index]))

    def _sought(self, iterator: tf_types.Iterator, number: tf_types.Tensor) -> tf_types.Tensor:
        if not self._is_dealt:
            return iterator.get_next()

        def begun_again() -> tf_types.Tensor:
            data = self._from(*self._start_of(number)).prefetch(tf.data.AUTOTUNE)
            # No public call puts an iterator that is in use somewhere else.
            handle = iterator._iterator_resource  # noqa: SLF001
            made = tf.raw_ops.MakeIterator(dataset=data._variant_tensor, iterator=handle)  # noqa: SLF001
            with tf.control_dependencies([made]):
                return iterator.get_next()

        element = iterator.get_next()
        element = tf.cond(element[0] > number, begun_again, lambda: element)
        return tf.while_loop(
            lambda element: element[0] < number,
            lambda _: [iterator.get_next()],
            [element],
        )[0]

    def _start_of(
        self, number: tf_types.Tensor
    ) -> tuple[tf_types.Tensor, tf_types.Tensor, tf_types.Tensor]:
        """Return pass, index and number from which a batch is found; nearest where it is known."""
        start, batches = self._passes.start, self._passes.batches
        if batches is None:
            first = (start.data_pass, start.index, start.number)
            return tuple(tf.constant(each, tf.int64) for each in first)
        offset = start.data_pass * batches + start.index - start.number
        place = number + tf.constant(offset, tf.int64)
        return place // batches, place % batches, number


def _as_it_is(stream: InputStream) -> Callable[..., tf_types.Dataset]:
    """Return what makes the stream of a dataset whose order is its own, in the same form."""
    own = replace(stream, context=replace(stream.context, seed=None))

    def made(*_: tf_types.Tensor) -> tf_types.Dataset:
        # This graph runs on every worker: with a seed in it, all of them would read the same.
        tf.random.set_seed(None)
        nothing = tf.constant(0, tf.int64)
        return own.repeated().map(lambda *batch: (nothing, (nothing, nothing, batch)))

    return made
