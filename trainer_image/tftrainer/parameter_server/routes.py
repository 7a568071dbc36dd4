"""Joins tensors of the shapes of variables, so that few are sent; used by exchange."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.parameter_server.gradients import joined, parted


class Routes:
    """How such tensors travel between a worker and each ps: as one vector for each type."""

    def __init__(self, variables: Sequence[tf_types.Variable]) -> None:
        self._variables = variables
        self._numbers: dict[tuple[str, tf.DType], list[int]] = {}
        for number, variable in enumerate(variables):
            self._numbers.setdefault((variable.device, variable.dtype), []).append(number)

    def join(self, tensors: Sequence[tf_types.Tensor]) -> list[tf_types.Tensor]:
        """Join the tensors, one for each variable, where this runs."""
        return [joined([tensors[number] for number in numbers]) for _, numbers in self._each()]

    def read(self) -> list[tf_types.Tensor]:
        """Join the values of the variables, where each is."""
        vectors = []
        for device, numbers in self._each():
            with tf.device(device):
                values = [self._variables[number].read_value() for number in numbers]
                vectors.append(joined(values))
        return vectors

    def part(
        self, vectors: Sequence[tf_types.Tensor], *, there: bool = False
    ) -> list[tf_types.Tensor]:
        """Return what was joined: where this runs, or, if `there`, where each variable is."""
        parts: dict[int, tf_types.Tensor] = {}
        for vector, (device, numbers) in zip(vectors, self._each(), strict=True):
            with tf.device(device) if there else nullcontext():
                shapes = [self._variables[number].shape for number in numbers]
                parts.update(zip(numbers, parted(vector, shapes), strict=True))
        return [parts[number] for number in range(len(self._variables))]

    def _each(self) -> Iterator[tuple[str, list[int]]]:
        return ((device, numbers) for (device, _), numbers in self._numbers.items())
