"""Makes a step with few messages between a worker and each ps; used by asynchronous.

A step that uses variables where they are receives each of them, and sends each gradient and each
change of a metric, in a message of its own. A small message costs as much as an empty one, so with
small variables messages are most of what distribution costs.

Here the small variables come from each ps as one vector, into copies on the worker, which the step,
Keras's or a user's, works on. What it changes goes back as one vector, and is applied on the ps. So
the step does what it would do with the variables themselves.

With one ps these are two of the three messages of a step; the third says whether the loop goes on.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import TypeAlias

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
from tftrainer.parameter_server.routes import Routes
from tftrainer.user.model import converted, trace

_Pairs: TypeAlias = Sequence[tuple[tf_types.Tensor, tf_types.Variable]]
"""Gradients, or changes, each with its variable."""
_Tensors: TypeAlias = tuple[Sequence[tf_types.Tensor], Sequence[list[tf_types.Tensor]]]
"""What is sent: vectors, and the parts of gradients that are sent alone."""

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
        ps: str | None,
    ) -> None:
        """Have the step made on copies of the variables in `copied`.

        `added` are those of them that it adds to, `packed` those whose gradients are sent together;
        the optimizer's operations are on `device`, if there is one. `ps` has all variables; None if
        several have.
        """
        self._model = model
        self._make_step = make_step
        self._step = plain(step)
        self._copied = copied
        self._routes = Routes(copied)
        self._added = {id(each) for each in added}
        self._packed = {id(each) for each in packed}
        self._device = device
        self.ps = ps
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
        device = _only(packed) if len(packed) == len(taken.gradients) else None
        ps = _only([*single(variables_of(model)), plain(step)])
        if device is None and _clips(model.optimizer):
            # That is computed on the worker: the gradients would come back for it.
            packed, ps = [], None
        return cls(
            model,
            make_step,
            step,
            copied=[each for each, _ in copied],
            added=[each for each, how in copied if how & _ADDS],
            packed=packed,
            device=device or ps,
            ps=ps,
        )

    def begin(self, device: str) -> Callable[[tf_types.Tensor], None]:
        """Copy the variables to a device of the worker; return what makes a step (batch) there.

        Once in the function that makes the steps.
        """
        copies = LocalCopies(self._copied, device=device)
        self._bring(self._routes.read(), copies, device)
        return functools.partial(self._make, copies, device)

    @tf.autograph.experimental.do_not_convert
    def _make(self, copies: LocalCopies, device: str, batch: tf_types.Tensor) -> None:
        """Make a step on one replica on the copies, count it, and give them the values after it.

        To read those here, and not at the beginning of the next step, saves half of the time that
        the worker waits. And as copies are assigned what a ps sends last, TensorFlow leaves out the
        message that the ps has done its part of this turn of a loop.
        """
        run = tf.distribute.get_strategy().run
        result: _Result = run(self._computed, args=(copies, batch))

        def applied(tensors: _Tensors) -> list[tf_types.Tensor]:
            run(self._applied, args=(result, tensors))
            return self._routes.read()

        there = _as_one_operation(applied, result.tensors, self.ps) if self.ps else applied
        self._bring(there(result.tensors), copies, device)

    def _bring(self, vectors: Sequence[tf_types.Tensor], copies: LocalCopies, device: str) -> None:
        """Give the copies, which are on a device, the values that have arrived."""
        with tf.device(device):
            copies.assign(self._routes.part(vectors))

    def _computed(self, copies: LocalCopies, batch: tf_types.Tensor) -> "_Result":
        """Make a step on the copies, up to where it applies gradients."""
        before = copies.read()
        with copies.substituted(), gradients.taken(self._model) as taken:
            self._make_step(batch)
        changes = [
            (after - begin, variable)
            for variable, begin, after in zip(self._copied, before, copies.read(), strict=True)
            if id(variable) in self._added
        ]
        return _Result(taken.gradients, changes, self._packed)

    def _applied(self, result: "_Result", tensors: _Tensors) -> None:
        """Apply what a step has computed, where the variables are, and count the step."""
        pairs, changes = result.arrived(tensors)
        with tf.device(self._device) if self._device else nullcontext():
            self._model.optimizer.apply_gradients(pairs, **self._options)
        done = tf.nest.flatten([each for each, _ in [*pairs, *changes]], expand_composites=True)
        for change, variable in changes:
            with tf.device(variable.device):
                done.append(variable.assign_add(change).op)
        # Who reads a step finds its loss, if both are on one ps. To wait for another costs a
        # message.
        near = [each for each in done if each.device == self._step.device]
        with tf.device(self._step.device), tf.control_dependencies(near or done[:1]):
            self._step.assign_add(1)


class _Result:
    """What a step has computed; made and used in one trace."""

    def __init__(self, gradients: _Pairs, changes: _Pairs, packed: Collection[int]) -> None:
        """`packed` are the ids of variables whose gradients are sent together."""
        self._learned = [variable for _, variable in gradients]
        self._changed = [variable for _, variable in changes]
        self._is_packed = [id(plain(variable)) in packed for variable in self._learned]
        both = list(zip(gradients, self._is_packed, strict=True))
        together = [*[pair for pair, is_packed in both if is_packed], *changes]
        self._routes = Routes([plain(variable) for _, variable in together])
        vectors = self._routes.join([tensor for tensor, _ in together])
        alone = [_parts(gradient) for (gradient, _), is_packed in both if not is_packed]
        self.tensors: _Tensors = vectors, alone

    def arrived(self, tensors: _Tensors) -> tuple[_Pairs, _Pairs]:
        """Return gradients and changes of these tensors, each where its variable is."""
        vectors, alone = tensors
        parts, others = iter(self._routes.part(vectors, there=True)), iter(alone)
        gradients = [
            (next(parts) if is_packed else _whole(next(others), variable), variable)
            for variable, is_packed in zip(self._learned, self._is_packed, strict=True)
        ]
        return gradients, list(zip(parts, self._changed, strict=True))


def _parts(gradient: tf_types.Tensor) -> list[tf_types.Tensor]:
    """Return what has to be sent of a gradient: not the shape of its variable."""
    is_sparse = isinstance(gradient, tf.IndexedSlices)
    return [gradient.values, gradient.indices] if is_sparse else [gradient]


def _whole(parts: list[tf_types.Tensor], variable: tf_types.Variable) -> tf_types.Tensor:
    """Return the gradient of a variable that these are the parts of."""
    if len(parts) == 1:
        return parts[0]
    values, indices = parts
    return gradients.sparse(values, indices, variable)


def _as_one_operation(
    function: Callable[[_Tensors], list[tf_types.Tensor]], tensors: _Tensors, ps: str
) -> Callable[[_Tensors], list[tf_types.Tensor]]:
    """Return it as one operation on a ps, for a loop; as it is if it uses variables elsewhere.

    Of several, those without an input, such as constants, wait in each turn of the loop for a
    message that the turn has begun.
    """
    one = tf.function(function, autograph=False, experimental_attributes={"_noinline": True})
    if _only(one.get_concrete_function(tensors).variables) != ps:
        return function

    def there(tensors: _Tensors) -> list[tf_types.Tensor]:
        with tf.device(ps):
            vectors: list[tf_types.Tensor] = one(tensors)
            return vectors

    return there


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


def _only(variables: Sequence[tf_types.Variable]) -> str | None:
    """Return the ps that has all of them; None if there is none, or several."""
    devices = {variable.device for variable in variables}
    return devices.pop() if len(devices) == 1 else None


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
