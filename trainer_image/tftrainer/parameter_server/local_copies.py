"""Copies variables to the worker that a function runs on; used by local_steps and exchange.

The copies exist while the function runs. A step reaches each variable through its handle. While
steps are traced here, the handles are those of copies, which the function itself makes; so the same
step, Keras's or a user's, works on either. TensorFlow has no public way to substitute one variable
for another; the private one is kept here.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.user.model import all_metrics

# The name that makes TensorFlow give every run of the function variables of its own, even if one
# that the chief has given up still runs on the same worker, and free them when the run ends.
_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


class LocalCopies:
    """A copy of each of some variables. Make it, and use it, in one tf.function."""

    def __init__(self, variables: Iterable[tf_types.Variable], *, device: str) -> None:
        """`device` is the worker's own that the steps run on, such as "/device:CPU:0"."""
        self._variables = single(variables)
        with tf.device(device):
            self._handles = [
                tf.raw_ops.VarHandleOp(dtype=each.dtype, shape=each.shape, shared_name=_ANONYMOUS)
                for each in self._variables
            ]

    @contextmanager
    def substituted(self) -> Iterator[None]:
        """Have what is traced in this block work on the copies."""
        own = [each._handle for each in self._variables]  # noqa: SLF001 -- see above
        self._set_handles(self._handles)
        try:
            yield
        finally:
            self._set_handles(own)

    def pull(self) -> list[tf_types.Tensor]:
        """Copy the variables; return their values."""
        values = [each.read_value() for each in self._variables]
        self.assign(values)
        return values

    def assign(self, values: Sequence[tf_types.Tensor]) -> None:
        """Give each copy its value."""
        for handle, value in zip(self._handles, values, strict=True):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    def read(self) -> list[tf_types.Tensor]:
        """Return the values of the copies."""
        return [
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)
            for variable, handle in zip(self._variables, self._handles, strict=True)
        ]

    def push(
        self,
        pulled: Sequence[tf_types.Tensor],
        *,
        share: float,
        whole: Iterable[tf_types.Variable],
        learned: Iterable[tf_types.Variable],
    ) -> list[tf_types.Operation]:
        """Bring to each variable how much its copy has changed since it was pulled.

        Returns the operations that do so: TensorFlow orders only those of one variable by itself.

        Of a real number that is a share; of those in `whole`, and of integers, which count, it is
        all. What cannot be added is replaced.

        Weights, which are `learned`, are moved by steps, so changes of them are added. All other
        real numbers are statistics, such as an optimizer's means of gradients and of their squares:
        what shrinks in them was forgotten, which others may have forgotten as well since it was
        pulled. Added up, the changes would take a mean of squares below zero, whose root is NaN.
        See _moved.
        """
        whole_ids = {id(each) for each in single(whole)}
        learned_ids = {id(each) for each in single(learned)}
        pushed = []
        for variable, before, after in zip(self._variables, pulled, self.read(), strict=True):
            if not (variable.dtype.is_floating or variable.dtype.is_integer):
                change = variable.assign(after)
            elif variable.dtype.is_integer or id(variable) in whole_ids:
                change = variable.assign_add(after - before)
            elif id(variable) in learned_ids:
                change = variable.assign_add((after - before) * tf.cast(share, variable.dtype))
            else:
                # On the ps, where nothing comes between reading and writing for long. Of two that
                # do it at once one may be lost, which a statistic bears.
                with tf.device(variable.device):
                    now = variable.read_value()
                    moved = _moved(now, before, after, tf.cast(share, variable.dtype))
                    change = variable.assign(moved)
            pushed.append(change.op)
        return pushed

    def _set_handles(self, handles: Sequence[tf_types.Tensor]) -> None:
        for variable, handle in zip(self._variables, handles, strict=True):
            variable._handle = handle  # noqa: SLF001 -- see above


def _moved(
    now: tf_types.Tensor, before: tf_types.Tensor, after: tf_types.Tensor, share: tf_types.Tensor
) -> tf_types.Tensor:
    """Return a statistic, moved by its share of how a copy went from `before` to `after`.

    What has grown is added. What has shrunk moves the statistic towards `after` and never past it:
    so what is not negative in the copies stays so, and stays as large as the smallest of them. That
    is the mean of both where the statistic lies between, and nothing where it is past it.
    """
    shrinks = (before * after >= 0) & (tf.abs(after) < tf.abs(before))
    least, most = tf.minimum(before, after), tf.maximum(before, after)
    start = tf.where(shrinks, tf.clip_by_value(now, least, most), before)
    return now + (after - start) * share


def metrics_of(model: tf_types.Model) -> list[tf_types.Variable]:
    """Return the variables of its metrics, which count over all workers."""
    return [variable for metric in all_metrics(model) for variable in metric.variables]


def variables_of(model: tf_types.Model) -> list[tf_types.Variable]:
    """Return all that a step can reach through the model: weights, optimizer, metrics.

    One that were left out, as the learning rate is from the optimizer's own list, would be reached
    over the network in every step. Without those of a shape that is not known, by which TensorFlow
    ends a worker, with a fatal check: the layer that has one, for weights of words, computes with a
    constant.
    """
    found = [*held_by(model), *metrics_of(model)]
    return [each for each in found if each.shape.is_fully_defined()]


def held_by(owner: tf_types.Model | tf_types.Optimizer) -> list[tf_types.Variable]:
    """Return the variables of a model and its optimizer, or of an optimizer, without metrics."""
    parts = tf.train.TrackableView(owner).descendants()
    return [each for each in parts if isinstance(each, tf.Variable) or _is_partitioned(each)]


def _is_partitioned(variable: tf_types.Variable) -> bool:
    return bool(getattr(variable, "is_sharded_variable", False))


def single(variables: Iterable[tf_types.Variable]) -> list[tf_types.Variable]:
    """Return the plain variables behind them, each once: parts of one that is partitioned."""
    found: dict[int, tf_types.Variable] = {}
    for variable in variables:
        for part in variable.variables if _is_partitioned(variable) else [variable]:
            held = plain(part)
            found[id(held)] = held
    return list(found.values())


def plain(variable: tf_types.Variable) -> tf_types.Variable:
    """Return what strategies and mixed precision wrap, handing every use on to it."""
    held = vars(variable)
    inner = held.get("_v", held.get("_variable"))
    return variable if inner is None else plain(inner)
