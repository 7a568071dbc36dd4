"""Skips batches of the user's dataset without making them; used by input_stream.

tf.data's own skip makes whatever it drops, so that going on in the middle of a long epoch would
decode and augment half of it first. What maps, batches or prefetches keeps the order of its input,
so skipping batches is skipping elements before all of that. It is recorded while the user's
function runs, and made once more behind the skip. Map after shuffle is the same as shuffle after
map, so that a dataset which is shuffled last is helped too.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tftrainer import tf_types

_Method = Callable[..., tf_types.Dataset]

_MAP, _SHUFFLE = "map", "shuffle"
_KEEPING_COUNT = (_MAP, "prefetch", "with_options")
_BATCHING = ("batch", "padded_batch", "ragged_batch")


@dataclass(frozen=True, slots=True)
class _Step:
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
        self._steps: dict[int, _Step] = {}

    @contextmanager
    def of_calls(self, repeated: Callable[[], Callable[[_Method], _Method]]) -> Iterator[None]:
        """Record what is called on datasets in this block.

        `repeated` is asked before each call; what it returns wraps the call when it is made again.
        """
        methods = {
            name: getattr(tf.data.Dataset, name) for name in (*_KEEPING_COUNT, *_BATCHING, _SHUFFLE)
        }
        for name, method in methods.items():
            setattr(tf.data.Dataset, name, self._recorded(name, method, repeated))
        try:
            yield
        finally:
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
            self._note(_Step(name, source, again, size, made))
            return made

        return call

    def _note(self, step: _Step) -> None:
        self._steps[id(step.result)] = step

    def skip(self, data: tf_types.Dataset, count: tf_types.Tensor) -> tf_types.Dataset:
        """Return the dataset without its first elements; `count` is int64 without axes."""
        step = self._steps.get(id(data))
        if step is None:
            return data.skip(count)
        if step.name != _SHUFFLE:
            return step.again(self.skip(step.source, count * tf.cast(step.elements, tf.int64)))
        mapped = self._steps.get(id(step.source))
        if mapped is None or mapped.name != _MAP:
            return data.skip(count)
        shuffled = step.again(mapped.source)
        self._note(_Step(_SHUFFLE, mapped.source, step.again, 1, shuffled))
        return mapped.again(self.skip(shuffled, count))
