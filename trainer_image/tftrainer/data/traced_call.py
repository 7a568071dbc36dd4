"""Calls the user's dataset() also where TensorFlow traces a graph; used by input_stream.

dataset() was called before, eagerly, and what it returned was checked. A call that fails here
usually asks for a value, which nothing has in a graph.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError
from tftrainer.user.task import UserTask

_ADVICE = (
    "dataset() is called again while TensorFlow traces it: datasets and tensors that it makes have "
    "no values then, even if the first call succeeded. Compute what needs values, as by int(), "
    "len(), .numpy() or a loop over a dataset, at the top of the module, or in a function of its "
    "own with @functools.cache, which keeps what the first call returned"
)


def training_data(task: UserTask, context: Context) -> tf_types.Dataset:
    """Return the dataset that is trained on."""
    if tf.executing_eagerly():
        return task.dataset("train", context)
    try:
        with _loops_refused():
            return task.dataset("train", context)
    except BadConfigurationError as error:
        # Without a cause it is a refusal of ours, which says what to do.
        if error.__cause__ is None:
            raise
        raise BadConfigurationError(f"{error}. {_ADVICE}.") from error.__cause__


@contextmanager
def _loops_refused() -> Iterator[None]:
    """Refuse loops over datasets in the graph that is traced.

    They would never end: in a graph, only running it says where the data ends.
    """
    graph, iterate = tf.compat.v1.get_default_graph(), tf.data.Dataset.__iter__

    def refused(data: tf_types.Dataset) -> tf_types.Iterator:
        # A function of the dataset has a graph of its own, where AutoGraph knows what to do.
        if tf.compat.v1.get_default_graph() is graph:
            raise RuntimeError("a tf.data.Dataset can be iterated over in eager mode only")
        return iterate(data)

    tf.data.Dataset.__iter__ = refused
    try:
        yield
    finally:
        tf.data.Dataset.__iter__ = iterate
