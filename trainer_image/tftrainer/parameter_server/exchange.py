"""Makes a step with few messages between a worker and each ps; used by asynchronous.

A step that uses variables where they are receives each of them, and sends each gradient and each
change of a metric, in a message of its own. A small message costs as much as an empty one, so with
small variables messages are most of what distribution costs.

Here the small variables come from each ps as one vector, into copies on the worker, which the step,
Keras's or a user's, works on. What it changes goes back as one vector, and is applied on the ps. So
the step does what it would do with the variables themselves.
"""

import inspect
from collections.abc import Sequence
from contextlib import nullcontext

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.errors import BadConfigurationError
from tftrainer.parameter_server import gradients
from tftrainer.parameter_server.local_copies import (
    LocalCopies,
    held_by,
    plain,
    single,
    variables_of,
)
from tftrainer.user.model import converted, trace

# To copy more than this into a vector, and out of it again, takes longer than a message.
_SMALL_BYTES = 1 << 20
_READS = frozenset({"ReadVariableOp"})
_ADDS = frozenset({"AssignAddVariableOp", "AssignSubVariableOp"})
# What changes weights beside the optimizer, such as a second one of the user's. It has to work on
# the weights as they are: what several workers make of the same older ones may be too much in all.
_CHANGES = _ADDS | {"AssignVariableOp", "ResourceScatterAdd", "ResourceScatterSub"}


class Exchange:
    """How one step's variables and changes are moved; made by `of`."""

    def __init__(
        self,
        model: tf_types.Model,
        make_step: tf_types.Function,
        step: tf_types.Variable,
        *,
        copied: Sequence[tf_types.Variable],
        added: Sequence[tf_types.Variable],
        packed: Sequence[tf_types.Variable],
        device: str | None,
    ) -> None:
        """Have the step made on copies of the variables in `copied`.

        `added` are those of them that it adds to, `packed` those whose gradients are sent together;
        the optimizer's operations are on `device`, if there is one.
        """
        self._model = model
        self._make_step = make_step
        self._step = plain(step)
        self._copied = copied
        self._added = {id(each) for each in added}
        self._packed = {id(each) for each in packed}
        self._device = device
        self._options = _options(model.optimizer)

    @classmethod
    def of(
        cls,
        model: tf_types.Model,
        make_step: tf_types.Function,
        step: tf_types.Variable,
        spec: tf_types.TensorSpec,
    ) -> "Exchange | None":
        """Trace a step on a batch of this spec, to see how it uses each variable.

        `step` is the variable that counts. None if the step has to be made on the variables
        themselves: it does not apply gradients exactly once, or uses what they have changed, or
        changes weights otherwise.
        """
        make_step = converted(make_step)
        try:
            with gradients.taken(model) as taken:
                graph = trace(make_step, spec)
        except BadConfigurationError:
            return None
        if not _ends_with(graph, taken, model.optimizer) or any(
            _uses(graph, each) & _CHANGES for each in single(model.trainable_variables)
        ):
            return None
        uses = [
            (each, _uses(graph, each)) for each in single(variables_of(model)) if _is_small(each)
        ]
        copied = [(each, how) for each, how in uses if how and how <= _READS | _ADDS]
        packed = [
            plain(variable) for gradient, variable in taken.gradients if _fits(gradient, variable)
        ]
        device = _device_of_all(taken.gradients, packed)
        if device is None and _clips(model.optimizer):
            # That is computed on the worker: the gradients would come back for it.
            packed = []
        return cls(
            model,
            make_step,
            step,
            copied=[each for each, _ in copied],
            added=[each for each, how in copied if how & _ADDS],
            packed=packed,
            device=device,
        )

    def copies(self, device: str) -> LocalCopies:
        """Make what `make` works on; once in the function that makes the steps."""
        return LocalCopies(self._copied, device=device)

    def values(self) -> list[tf_types.Tensor]:
        """Return the values of the variables that the step is made on, as they are now."""
        return _brought(self._copied)

    @tf.autograph.experimental.do_not_convert
    def make(
        self, copies: LocalCopies, before: Sequence[tf_types.Tensor], batch: tf_types.Tensor
    ) -> list[tf_types.Tensor]:
        """Make a step on one replica from these values, and count it.

        Returns the values after it. To read them here, and not at the beginning of the next step,
        saves half of the time that the worker waits.
        """
        copies.assign(before)
        with copies.substituted(), gradients.taken(self._model) as taken:
            self._make_step(batch)
        changes = [
            (after - begin, variable)
            for variable, begin, after in zip(self._copied, before, copies.read(), strict=True)
            if id(variable) in self._added
        ]
        packed = [pair for pair in taken.gradients if self._is_packed(pair[1])]
        arrived = _sent([(tensor, plain(variable)) for tensor, variable in [*packed, *changes]])
        there = iter(arrived)
        pairs = [(next(there) if self._is_packed(v) else g, v) for g, v in taken.gradients]
        with tf.device(self._device) if self._device else nullcontext():
            self._model.optimizer.apply_gradients(pairs, **self._options)
        for (_, variable), change in zip(changes, list(there), strict=True):
            with tf.device(variable.device):
                arrived.append(variable.assign_add(change).op)
        # Who reads a step finds its loss, if both are on one ps. To wait for another costs a
        # message.
        near = [each for each in arrived if each.device == self._step.device]
        anything = arrived or tf.nest.flatten(pairs[0][0], expand_composites=True)
        with tf.device(self._step.device), tf.control_dependencies(near or anything[:1]):
            self._step.assign_add(1)
        return self.values()

    def _is_packed(self, variable: tf_types.Variable) -> bool:
        return id(plain(variable)) in self._packed


def _ends_with(
    graph: tf_types.Graph, taken: gradients.Taken, optimizer: tf_types.Optimizer
) -> bool:
    """Whether nothing that is after the applying of the gradients uses what it changes.

    Then it can as well be the last thing. It cannot where it is in a branch or loop, with gradients
    that are of another graph.
    """
    if not taken.is_of(graph):
        return False
    changed = single([*[variable for _, variable in taken.gradients], *held_by(optimizer)])
    later = set(graph.get_operations()[taken.after :])
    return not any(later & set(_users(graph, variable)) for variable in changed)


def _uses(graph: tf_types.Graph, variable: tf_types.Variable) -> frozenset[str]:
    """Return the types of the operations on a variable; empty if there are none."""
    return frozenset(operation.type for operation in _users(graph, variable))


def _users(graph: tf_types.Graph, variable: tf_types.Variable) -> list[tf_types.Operation]:
    users: list[tf_types.Operation] = graph.capture(variable.handle).consumers()
    return users


def _fits(gradient: tf_types.Tensor, variable: tf_types.Variable) -> bool:
    """Whether a gradient can be sent with others: a small dense one."""
    is_dense = isinstance(gradient, tf.Tensor) and gradient.dtype == variable.dtype
    return is_dense and _is_small(plain(variable))


def _is_small(variable: tf_types.Variable) -> bool:
    is_number = variable.dtype.is_floating or variable.dtype.is_integer
    if not (is_number and variable.shape.is_fully_defined()):
        return False
    size: int = variable.shape.num_elements() * variable.dtype.size
    return size <= _SMALL_BYTES


def _brought(variables: Sequence[tf_types.Variable]) -> list[tf_types.Tensor]:
    """Return the values of variables where this runs: one message a ps and type."""
    values: dict[int, tf_types.Tensor] = {}
    for (device, _), numbers in _routes(variables).items():
        with tf.device(device):
            vector = gradients.joined([variables[number].read_value() for number in numbers])
        parts = gradients.parted(vector, [variables[number].shape for number in numbers])
        values.update(zip(numbers, parts, strict=True))
    return [values[number] for number in range(len(variables))]


def _sent(
    pairs: Sequence[tuple[tf_types.Tensor, tf_types.Variable]],
) -> list[tf_types.Tensor]:
    """Return tensors of the shapes of variables, where those are: one message a ps and type."""
    variables = [variable for _, variable in pairs]
    arrived: dict[int, tf_types.Tensor] = {}
    for (device, _), numbers in _routes(variables).items():
        vector = gradients.joined([pairs[number][0] for number in numbers])
        with tf.device(device):
            parts = gradients.parted(vector, [variables[number].shape for number in numbers])
        arrived.update(zip(numbers, parts, strict=True))
    return [arrived[number] for number in range(len(pairs))]


def _routes(variables: Sequence[tf_types.Variable]) -> dict[tuple[str, tf.DType], list[int]]:
    """Group the numbers of variables by the ps that has them, and by type."""
    routes: dict[tuple[str, tf.DType], list[int]] = {}
    for number, variable in enumerate(variables):
        routes.setdefault((variable.device, variable.dtype), []).append(number)
    return routes


def _device_of_all(
    pairs: Sequence[tuple[tf_types.Tensor, tf_types.Variable]], packed: Sequence[tf_types.Variable]
) -> str | None:
    """Return the ps that has all variables of these gradients, if all are packed; else None."""
    devices = {variable.device for variable in packed}
    return devices.pop() if len(devices) == 1 and len(packed) == len(pairs) else None


def _options(optimizer: tf_types.Optimizer) -> dict[str, bool]:
    """Return what has gradients left where they are; to sum up those of one replica moves them.

    Keras's legacy optimizers refuse it on parameter servers.
    """
    if isinstance(optimizer, tf.keras.optimizers.legacy.Optimizer):
        return {}
    parameters = inspect.signature(optimizer.apply_gradients).parameters.values()
    name = "experimental_aggregate_gradients"
    takes = any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)
    return {name: False} if takes else {}


def _clips(optimizer: tf_types.Optimizer) -> bool:
    return any(
        getattr(optimizer, name, None) for name in ("clipnorm", "clipvalue", "global_clipnorm")
    )
