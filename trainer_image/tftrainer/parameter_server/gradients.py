"""Takes gradients from a step on a worker, averages them and applies them.

Used by synchronous and exchange. Dense gradients of one type are sent as one vector, since each
fetched tensor is a round trip.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tftrainer import tf_types
from tftrainer.errors import BadConfigurationError
from tftrainer.user.overriding import override, restore


@dataclass(slots=True)
class Taken:
    """What a step would have applied; filled while it is traced."""

    gradients: list[tuple[tf_types.Tensor, tf_types.Variable]] = field(default_factory=list)
    graph: tf_types.Graph = None
    """Where they would have been applied."""
    after: int = 0
    """How many operations that had then."""

    def take(self, grads_and_vars: Sequence[tuple[tf_types.Tensor, tf_types.Variable]]) -> None:
        """Keep them. Raises BadConfigurationError if there already are some."""
        if self.gradients:
            raise BadConfigurationError(
                "train_step calls model.optimizer.apply_gradients (or minimize) more than once; "
                "--mode=synchronous can average the gradients of one call only. Put them into one "
                "call, or use another mode."
            )
        self.gradients = [(_as_it_is(g), v) for g, v in grads_and_vars if g is not None]
        self.graph = tf.compat.v1.get_default_graph()
        self.after = len(self.graph.get_operations())

    def check(self) -> None:
        """Raise BadConfigurationError if there is nothing to apply."""
        if not self.gradients:
            raise BadConfigurationError(
                "train_step hands no gradient to model.optimizer.apply_gradients (or minimize); "
                "--mode=synchronous averages what it hands there. Use that optimizer, or another "
                "mode."
            )

    def is_of(self, graph: tf_types.Graph) -> bool:
        """Whether they would have been applied in this graph, and not in a branch or loop of it."""
        return self.graph is graph

    def check_is_of(self, graph: tf_types.Graph) -> None:
        """Raise BadConfigurationError if they are not."""
        if not self.is_of(graph):
            raise BadConfigurationError(
                "train_step calls model.optimizer.apply_gradients (or minimize) in a branch or "
                "loop, as of tf.cond; --mode=synchronous averages what every step hands there. "
                "Call it in every step, or use another mode."
            )


def _as_it_is(gradient: tf_types.Tensor) -> tf_types.Tensor:
    """Return the value of what may be a variable, in which a step adds gradients up."""
    if isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.convert_to_tensor(gradient)


@contextmanager
def taken(model: tf_types.Model) -> Iterator[Taken]:
    """Have the steps that are traced in this block give their gradients away instead of applying.

    Keras's own step, an overridden one and a user's all end in the optimizer's apply_gradients.
    """
    result = Taken()

    def apply_gradients(
        grads_and_vars: Sequence[tuple[tf_types.Tensor, tf_types.Variable]],
        *_: object,
        **__: object,
    ) -> tf_types.Variable:
        result.take(list(grads_and_vars))
        return model.optimizer.iterations

    override(model.optimizer, "apply_gradients", apply_gradients)
    try:
        yield result
        result.check()
    finally:
        restore(model.optimizer, "apply_gradients")


def joined(tensors: Sequence[tf_types.Tensor]) -> tf_types.Tensor:
    """Return tensors of one type as one vector."""
    return tf.concat([tf.reshape(each, [-1]) for each in tensors], axis=0)


def parted(
    vector: tf_types.Tensor, shapes: Sequence[tf_types.TensorShape]
) -> list[tf_types.Tensor]:
    """Return the tensors of these shapes that were joined."""
    parts = tf.split(vector, [shape.num_elements() for shape in shapes])
    return [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]


def sparse(
    values: tf_types.Tensor, indices: tf_types.Tensor, variable: tf_types.Variable
) -> tf_types.Tensor:
    """Return the gradient of a variable of which values and indices were sent, and no shape."""
    shape = tf.constant(variable.shape.as_list(), tf.int64)
    return tf.IndexedSlices(values, indices, dense_shape=shape)


Packed = Mapping[str, tf_types.Tensor]
"""Gradients as few tensors: `dense <type>` a vector, `<number> values` and `<number> indices`."""


Values = Mapping[str, NDArray[Any]]
"""The same in the chief."""


class Packing:
    """How the gradients of certain variables are packed."""

    def __init__(self, gradients: Sequence[tuple[tf_types.Tensor, tf_types.Variable]]) -> None:
        self._variables = [variable for _, variable in gradients]
        self._sparse = [isinstance(gradient, tf.IndexedSlices) for gradient, _ in gradients]
        self._types = [gradient.dtype for gradient, _ in gradients]

    def pack(self, gradients: Sequence[tf_types.Tensor]) -> Packed:
        """Pack them; in a tf.function."""
        packed: dict[str, tf_types.Tensor] = {}
        for number, gradient in enumerate(gradients):
            if self._sparse[number]:
                packed[f"{number} values"] = gradient.values
                packed[f"{number} indices"] = tf.cast(gradient.indices, tf.int64)
        for dtype, numbers in self._dense.items():
            packed[f"dense {dtype.name}"] = joined([gradients[number] for number in numbers])
        return packed

    def unpack(self, packed: Packed) -> list[tuple[tf_types.Tensor, tf_types.Variable]]:
        """Return the gradients, each with its variable; in a tf.function."""
        gradients: dict[int, tf_types.Tensor] = {}
        for number, variable in enumerate(self._variables):
            if self._sparse[number]:
                values, indices = packed[f"{number} values"], packed[f"{number} indices"]
                gradients[number] = sparse(values, indices, variable)
        for dtype, numbers in self._dense.items():
            shapes = [self._variables[number].shape for number in numbers]
            parts = parted(packed[f"dense {dtype.name}"], shapes)
            gradients.update(zip(numbers, parts, strict=True))
        return [(gradients[number], v) for number, v in enumerate(self._variables)]

    def signature(self) -> dict[str, tf_types.TensorSpec]:
        """Return the types and shapes of what is packed."""
        specs = {}
        for number, variable in enumerate(self._variables):
            if self._sparse[number]:
                shape = [None, *variable.shape[1:]]
                specs[f"{number} values"] = tf.TensorSpec(shape, self._types[number])
                specs[f"{number} indices"] = tf.TensorSpec([None], tf.int64)
        for dtype, numbers in self._dense.items():
            size = sum(self._variables[number].shape.num_elements() for number in numbers)
            specs[f"dense {dtype.name}"] = tf.TensorSpec([size], dtype)
        return specs

    @property
    def _dense(self) -> dict[tf.DType, list[int]]:
        """Which gradients go into the vector of each type."""
        grouped: dict[tf.DType, list[int]] = {}
        for number, dtype in enumerate(self._types):
            if not self._sparse[number]:
                grouped.setdefault(dtype, []).append(number)
        return grouped


def mean(parts: Sequence[Values], weights: Sequence[float]) -> dict[str, NDArray[Any]]:
    """Return the weighted sum of packed gradients, in this order; the weights add up to 1."""
    return {name: _mean(name, [part[name] for part in parts], weights) for name in parts[0]}


def _mean(name: str, values: Sequence[NDArray[Any]], weights: Sequence[float]) -> NDArray[Any]:
    if name.endswith(" indices"):
        return np.concatenate(values)
    weighted = [value * value.dtype.type(w) for value, w in zip(values, weights, strict=True)]
    return (
        np.concatenate(weighted) if name.endswith(" values") else functools.reduce(np.add, weighted)
    )
