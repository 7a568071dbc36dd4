"""Keeps the order of a dataset the same whatever CPUs a machine has; used by input_stream.

Without a cycle_length, `interleave` reads as many files in turn as the machine has CPUs, and so
does TFRecordDataset with num_parallel_reads=AUTOTUNE. Workers on unlike machines, or a training
that is resumed on another one, would disagree about which examples a batch has.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from tftrainer import tf_types

CYCLE_LENGTH = 16
"""How many datasets `interleave` reads in turn where the user's dataset does not say it."""


@contextmanager
def same_on_all_machines() -> Iterator[None]:
    """Have the datasets that are made in this block not depend on the number of CPUs."""
    interleave = tf.data.Dataset.interleave

    def interleaved(
        data: tf_types.Dataset,
        map_func: Callable[..., tf_types.Dataset],
        cycle_length: int | tf_types.Tensor | None = None,
        *given: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> tf_types.Dataset:
        if not tf.is_tensor(cycle_length) and cycle_length in (None, tf.data.AUTOTUNE):
            cycle_length = CYCLE_LENGTH
        return interleave(data, map_func, cycle_length, *given, **named)

    tf.data.Dataset.interleave = interleaved
    try:
        yield
    finally:
        tf.data.Dataset.interleave = interleave
