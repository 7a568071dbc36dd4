"""Reads the batches with certain numbers on a worker; used by all modes.

Every worker has an iterator over the stream. Where the length of a pass is known, it makes the
batches of that worker's lane alone (see dealer), from the elements that the dataset reads; else it
makes all, and drops what is for others. A worker that is given numbers which its iterator does not
come to, as after the loss of another, has it begin again where they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.data.batches import timed
from tftrainer.data.input_stream import InputStream
from tftrainer.data.position import ENDLESS, Passes

# To make and drop so many batches is less than to read the pass again up to where they end.
_FEW = 4
# To make so many is less than to fill the buffer of a shuffle again.
_FAR = 100
NUMBER = tf.TensorSpec([], tf.int64)
"""The type of the number of a batch, and of how far the next one is from it."""
NEAR = tf.TensorSpec([3], tf.int64)
"""That of `near`; see SharedInput.read."""
_NOT_FOUND = (
    "the dataset has fewer batches than its cardinality says: give it its true length by "
    "tf.data.experimental.assert_cardinality, as with ignore_errors, which keeps the old one"
)


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
        workers: int,
        is_copied: bool,
    ) -> None:
        """`is_copied` has a dataset made here and its graph copied, instead of one made there."""
        self._coordinator = coordinator
        self._is_copied = is_copied
        self._passes = passes
        self._is_dealt = stream.is_shared
        self._shares = workers if self._is_dealt and passes.are_known else 1
        """How many shares the stream is divided into; a worker makes the batches of one alone."""
        # Copies do not know whose they are: they find their share by the numbers they are given.
        self._takes_any = passes.batches == ENDLESS and not is_copied
        """Whether any batch will do: in a stream without passes none has to be found again."""
        self.lanes = 1 if self._takes_any else self._shares
        """The workers, if each has batches of its own; else 1."""
        made_by = self._made_by(stream)

        def from_place(*start: tf_types.Tensor) -> tf_types.Dataset:
            # Of a name that begins as `_` does TensorFlow warns in the user's log.
            return made_by(*start)

        # Traced once, although it is used in several graphs: it may hold all of the data.
        self._from = tf.function(
            from_place,
            input_signature=[NUMBER] * 4,
            autograph=False,
        ).get_concrete_function()
        self._datasets = self._made()

    @property
    def spec(self) -> tf_types.TensorSpec:
        """The type of a worker's iterator."""
        return tf.data.IteratorSpec(self._datasets.element_spec)

    @property
    def batch_spec(self) -> tf_types.TensorSpec:
        """The type of what `read` reads."""
        return self._datasets.element_spec[1][2]

    def iterators(self) -> tf_types.Iterator:
        """Make one iterator a worker, at the beginning of the stream: a per-worker value."""
        return iter(self._datasets)

    def _made_by(self, stream: InputStream) -> Callable[..., tf_types.Dataset]:
        """Return what makes the dataset from a place, a number and a step."""
        if not self._is_dealt:
            return _as_it_is(stream)
        batches = self._passes.batches
        if self._shares > 1 and batches is not None:
            return lambda *start: stream.each(*start, batches=batches)
        return lambda data_pass, index, number, _: stream.numbered(data_pass, index, number)

    def _made(self) -> tf_types.Dataset:
        def from_lane(lane: tf_types.Tensor) -> tf_types.Dataset:
            first = tf.constant(self._passes.start.number, tf.int64) + lane
            made = self._from(*self._start_of(first), tf.constant(self._shares, tf.int64))
            return made.prefetch(tf.data.AUTOTUNE)

        def of_one_worker() -> tf_types.Dataset:
            if self._shares == 1:
                return from_lane(tf.constant(0, tf.int64))
            return from_lane(tf.distribute.coordinator.experimental_get_current_worker_index())

        if self._is_copied:
            # The copies do not know whose they are, and find their lane when they are read.
            return self._coordinator.create_per_worker_dataset(from_lane(tf.constant(0, tf.int64)))
        function = tf.function(of_one_worker, autograph=False)
        return self._coordinator.create_per_worker_dataset(function)

    def read(
        self,
        iterator: tf_types.Iterator,
        number: tf_types.Tensor,
        step: tf_types.Tensor,
        *,
        near: tf_types.Tensor,
        after: tf_types.Tensor,
    ) -> Read:
        """Read the batch of this number (int64, no axes); in a tf.function on a worker.

        `step` is how far the next number will be from it. `near` is number, pass and index of one
        not behind it, from which it is looked for where its place is not known (int64, [3]).
        `after` is of what comes before: waiting counts from when that is done.
        """
        element, waited = timed(lambda: self._sought(iterator, number, step, near), after)
        index, of_pass, batch = element[1]
        return Read(batch, waited, tf.stack([of_pass, index]))

    def _sought(
        self,
        iterator: tf_types.Iterator,
        number: tf_types.Tensor,
        step: tf_types.Tensor,
        near: tf_types.Tensor,
    ) -> tf_types.Tensor:
        def begun_again() -> tf_types.Tensor:
            data = self._from(*self._found_by(number, step, near)).prefetch(tf.data.AUTOTUNE)
            # No public call puts an iterator that is in use somewhere else.
            handle = iterator._iterator_resource  # noqa: SLF001
            made = tf.raw_ops.MakeIterator(dataset=data._variant_tensor, iterator=handle)  # noqa: SLF001
            with tf.control_dependencies([made]):
                return iterator.get_next()

        # The datasets are endless, but one that was cut off while it waited for data, as by the
        # loss of a connection, says that it ended.
        following = iterator.get_next_as_optional()
        element = tf.cond(following.has_value(), following.get_value, begun_again)
        if self._takes_any or not self._is_dealt:
            return element
        if self.lanes > 1:
            element = _passed_by(iterator, element, number, few=_FEW * step)
            element = tf.cond(element[0] == number, lambda: element, begun_again)
            tf.debugging.assert_equal(element[0], number, message=_NOT_FOUND)
            return element
        is_far = element[0] > number
        if not self._passes.are_known:
            # What it would make of the pass again, or of all since it began.
            is_far |= number - element[0] > near[2] + number - near[0] + _FAR
        element = tf.cond(is_far, begun_again, lambda: element)
        return _passed_by(iterator, element, number)

    def _found_by(
        self, number: tf_types.Tensor, step: tf_types.Tensor, near: tf_types.Tensor
    ) -> tuple[tf_types.Tensor, ...]:
        """Return pass, index, number and step from which a batch, or any, is found."""
        if not self._passes.are_known:
            return near[1], near[2], near[0], step
        if not self._takes_any:
            return *self._start_of(number), step
        shares = tf.constant(self._shares, tf.int64)
        return *self._start_of(self._passes.start.number + number % shares), shares

    def _start_of(
        self, number: tf_types.Tensor
    ) -> tuple[tf_types.Tensor, tf_types.Tensor, tf_types.Tensor]:
        """Return pass, index and number of a batch; of the first where its place is not known."""
        start, batches = self._passes.start, self._passes.batches
        if batches is None:
            first = (start.data_pass, start.index, start.number)
            return tuple(tf.constant(each, tf.int64) for each in first)
        offset = start.data_pass * batches + start.index - start.number
        place = number + tf.constant(offset, tf.int64)
        return place // batches, place % batches, number


def _passed_by(
    iterator: tf_types.Iterator,
    element: tf_types.Tensor,
    number: tf_types.Tensor,
    few: tf_types.Tensor | None = None,
) -> tf_types.Tensor:
    """Drop batches until this number is reached; none if more than a few numbers lie between."""

    def is_before(element: tf_types.Tensor) -> tf_types.Tensor:
        before = element[0] < number
        return before if few is None else before & (number - element[0] <= few)

    return tf.while_loop(is_before, lambda _: [iterator.get_next()], [element])[0]


def _as_it_is(stream: InputStream) -> Callable[..., tf_types.Dataset]:
    """Return what makes the stream of a dataset whose order is its own, in the same form."""
    own = replace(stream, context=replace(stream.context, seed=None))

    def made(*_: tf_types.Tensor) -> tf_types.Dataset:
        # This graph runs on every worker: with a seed in it, all of them would read the same.
        tf.random.set_seed(None)
        data = own.repeated()
        # Not by a map, which hands a plain tuple over in parts, and a named one whole.
        nothing = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
        return tf.data.Dataset.zip((nothing, tf.data.Dataset.zip((nothing, nothing, data))))

    return made
