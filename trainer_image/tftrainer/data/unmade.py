"""Drops batches of the user's dataset without making them; used by input_stream.

tf.data's own skip and shard make whatever they drop, so that going on in the middle of a long epoch
would decode and augment half of it first, and each worker would decode what others train on. What
maps, batches or prefetches keeps the order of its input, so dropping batches is dropping elements
before all of that. It is recorded while the user's function runs, and made once more behind what
drops. Map after shuffle is the same as shuffle after map, so that a dataset which is shuffled last
is helped too.
"""

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tftrainer import tf_types

_LOG = logging.getLogger(__name__)

_Method = Callable[..., tf_types.Dataset]

_MAP, _SHUFFLE = "map", "shuffle"
_KEEPING_COUNT = (_MAP, "prefetch", "with_options")
_BATCHING = ("batch", "padded_batch", "ragged_batch")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a dataset's method."""

    name: str
    source: tf_types.Dataset
    again: Callable[[tf_types.Dataset], tf_types.Dataset]
    """Makes the same call on another source."""
    elements: int | tf_types.Tensor
    """How many elements of the source make one of the result."""
    result: tf_types.Dataset
    """Kept, so that nothing else gets its id."""


class Recording:
    """The datasets that are made within a block, and how."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}

    @contextmanager
    def of_calls(self, repeated: Callable[[], Callable[[_Method], _Method]]) -> Iterator[None]:
        """Record what is called on datasets in this block.

        `repeated` is asked before each call; what it returns wraps the call when it is made again.
        """
        methods = {
            name: getattr(tf.data.Dataset, name) for name in (*_KEEPING_COUNT, *_BATCHING, _SHUFFLE)
        }
        cache = tf.data.Dataset.cache
        for name, method in methods.items():
            setattr(tf.data.Dataset, name, self._recorded(name, method, repeated))
        tf.data.Dataset.cache = _uncached
        try:
            yield
        finally:
            tf.data.Dataset.cache = cache
            for name, method in methods.items():
                setattr(tf.data.Dataset, name, method)

    def _recorded(
        self, name: str, method: _Method, repeated: Callable[[], Callable[[_Method], _Method]]
    ) -> _Method:
        @functools.wraps(method)
        def call(source: tf_types.Dataset, *given: Any, **named: Any) -> tf_types.Dataset:  # noqa: ANN401
            repeat = repeated()

            def again(other: tf_types.Dataset) -> tf_types.Dataset:
                return repeat(method)(other, *given, **named)

            made = method(source, *given, **named)
            size = (*given, named.get("batch_size", 1))[0] if name in _BATCHING else 1
            self._note(_Call(name, source, again, size, made))
            return made

        return call

    def _note(self, call: _Call) -> None:
        self._calls[id(call.result)] = call

    @property
    def looks_up(self) -> bool:
        """Whether a function given to map uses what is kept between its calls, as lookup tables."""
        maps = (call.result for call in self._calls.values() if call.name == _MAP)
        # No public word says what a function uses.
        used = (made._map_func.function.captured_inputs for made in maps)  # noqa: SLF001
        return any(each.dtype == tf.resource for inputs in used for each in inputs)

    def kept(
        self, data: tf_types.Dataset, first: tf_types.Tensor, step: tf_types.Tensor | None = None
    ) -> tf_types.Dataset:
        """Return the dataset from its element `first` on, and of those each `step`-th alone.

        Both are int64 without axes; all are kept without a step.
        """
        return self._kept(data, first, step, tf.constant(1, tf.int64))

    def _kept(
        self,
        data: tf_types.Dataset,
        first: tf_types.Tensor,
        step: tf_types.Tensor | None,
        size: tf_types.Tensor,
    ) -> tf_types.Dataset:
        """Do it to what has so many elements where the result has one."""
        call = self._calls.get(id(data))
        if call is None:
            return _each(data.skip(first * size), step, size)
        if call.name != _SHUFFLE:
            larger = size * tf.cast(call.elements, tf.int64)
            return call.again(self._kept(call.source, first, step, larger))
        mapped = self._calls.get(id(call.source))
        if mapped is None or mapped.name != _MAP:
            return _each(data.skip(first * size), step, size)
        shuffled = call.again(mapped.source)
        self._note(_Call(_SHUFFLE, mapped.source, call.again, 1, shuffled))
        return mapped.again(self._kept(shuffled, first, step, size))


def _uncached(data: tf_types.Dataset, *_: object, **__: object) -> tf_types.Dataset:
    """Take the place of cache(), which could not help here.

    Each pass is a dataset of its own, so a cache in memory would hold a pass and be read by none.
    One in a file would be written by all workers, and one that a killed worker has left unfinished
    is refused for ever.
    """
    _say_that_nothing_is_cached()
    return data


@functools.cache
def _say_that_nothing_is_cached() -> None:
    _LOG.info(
        "cache() of the training data has no effect: each worker makes its own share of the "
        "batches in each pass. To decode once for all, save what is decoded, and train on that"
    )


def _each(
    data: tf_types.Dataset, step: tf_types.Tensor | None, size: tf_types.Tensor
) -> tf_types.Dataset:
    """Keep `size` elements, drop those of the other steps, and so on."""
    if step is None:
        return data
    is_tuple = type(data.element_spec) is tuple

    def flat(*parts: tf_types.Dataset) -> tf_types.Dataset:
        return tf.data.Dataset.zip(parts if is_tuple else parts[0])

    return data.window(size, shift=size * step).flat_map(flat)
