"""Writes a Keras model in one format, so that it can be served without this trainer; by export.

Each writer takes the model, the spec of its features (as a dataset has it) and a folder. It raises
what TensorFlow or Keras raises for a model that cannot be written in its format.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tftrainer import tf_types
from tftrainer.config.arguments import ExportFormat
from tftrainer.saving import saved_names
from tftrainer.user import layers

_LOG = logging.getLogger(__name__)
KERAS_FILE = "model.keras"
_SERVE, _DEFAULT = "serve", "serving_default"
_OF_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def write_saved_model(model: tf_types.Model, features: tf_types.TensorSpec, folder: str) -> None:
    """Write a SavedModel whose signature serving_default predicts for any number of examples.

    Methods of the model that are a tf.function with an input_signature become further signatures.
    """

    def serve(inputs: tf_types.Tensor) -> tf_types.Tensor:
        return model(inputs, training=False)

    archive = tf.keras.export.ExportArchive()
    archive.track(model)
    own = _own_signatures(model)
    first = _DEFAULT if _SERVE in own else _SERVE
    if first not in own:
        # The first is served by default.
        archive.add_endpoint(first, serve, [_named(model, features)])
    for name, function in own.items():
        # Traces it, which the archive asks for.
        function.get_concrete_function()
        archive.add_endpoint(name, function)
    for name in {first, *own}:
        _refuse_python(getattr(archive, name).get_concrete_function())
    # It prints all signatures, and the folder, which is not the last one.
    tf.keras.utils.disable_interactive_logging()
    archive.write_out(folder)


def write_keras(model: tf_types.Model, _: tf_types.TensorSpec, folder: str) -> None:
    """Write a .keras file, and read it again: Keras writes more than it can read.

    The class of a layer or model that has no get_config may be rebuilt with other arguments.
    """
    if layers.has_adapted_bins(model):
        raise ValueError(
            "Keras would not read the boundaries of an adapted Discretization layer again, and put "
            "all values into one bin: give it bin_boundaries."
        )
    path = f"{folder}/{KERAS_FILE}"
    model.save(path)
    # Keras itself finds no layer's class of the user's, unless that is registered. It is the model
    # that was just written: its functions may be trusted.
    again = tf.keras.models.load_model(path, layers.own(model), compile=False, safe_mode=False)
    if not _have_same_weights(model, again):
        raise ValueError(
            "the file does not give the same model again: a layer or model without get_config() "
            "was rebuilt in another way."
        )


WRITERS: Mapping[ExportFormat, Callable[[tf_types.Model, tf_types.TensorSpec, str], None]] = {
    ExportFormat.SAVED_MODEL: write_saved_model,
    ExportFormat.KERAS: write_keras,
}


def _named(model: tf_types.Model, features: tf_types.TensorSpec) -> tf_types.TensorSpec:
    """Return the spec of what is served: of any number of examples, named as Keras names inputs."""
    known: list[str] = list(getattr(model, "input_names", None) or [])
    flat = tf.nest.flatten(features)
    if any(not isinstance(spec, tf.TensorSpec) for spec in flat):
        raise TypeError("its features are ragged or sparse, which a signature cannot take.")
    if isinstance(features, Mapping) and not any(map(tf.nest.is_nested, features.values())):
        inputs = getattr(model, "input", None)
        # Of inputs in a dict, Keras goes by its keys, and not by their names.
        keys = inputs if isinstance(inputs, Mapping) else known
        # What the dataset has and the model does not use, nobody has to send.
        used = [name for name in features if name in keys] or list(features)
        called = _input_names(used)
        return {name: _of_any_size(features[name], called[str(name)]) for name in used}
    if len(known) != len(flat):
        known = [f"input_{number + 1}" for number in range(len(flat))]
    called = _input_names(known)
    named = [_of_any_size(spec, called[name]) for spec, name in zip(flat, known, strict=True)]
    return tf.nest.pack_sequence_as(features, named)


def _input_names(names: list[str]) -> dict[str, str]:
    called = saved_names.input_names(names)
    _log_replaced(tuple((old, new) for old, new in called.items() if old != new))
    return called


@functools.cache
def _log_replaced(names: tuple[tuple[str, str], ...]) -> None:
    """Log it once a process: the best model has the names of the last one."""
    if names:
        _LOG.warning(
            "inputs of the SavedModel have other names than in the model, because a signature "
            "takes no others: %s",
            ", ".join(f"{old!r} is {new}" for old, new in names),
        )


def _of_any_size(spec: tf_types.TensorSpec, name: str) -> tf_types.TensorSpec:
    shape = spec.shape if spec.shape.rank is None else [None, *spec.shape[1:]]
    return tf.TensorSpec(shape, spec.dtype, name=name)


def _own_signatures(model: tf_types.Model) -> dict[str, Any]:
    found = {}
    for name in dir(type(model)):
        member = getattr(type(model), name, None)
        if isinstance(member, tf.types.experimental.PolymorphicFunction):
            bound = getattr(model, name)
            if bound.input_signature is not None:
                found[name] = bound
    return found


def _refuse_python(function: tf_types.Function) -> None:
    """Raise ValueError for what would fail wherever it is served."""
    graph = function.graph.as_graph_def()
    nodes = itertools.chain(graph.node, *(each.node_def for each in graph.library.function))
    if any(node.op in _OF_PYTHON for node in nodes):
        raise ValueError(
            "it calls Python (tf.py_function, tf.numpy_function), which a SavedModel does not hold."
        )


def _have_same_weights(model: tf_types.Model, other: tf_types.Model) -> bool:
    # Among weights are the vocabularies of adapted layers, which are no variables.
    # Of a text, Keras returns no array.
    one, two = (list(map(np.asarray, each.get_weights())) for each in (model, other))
    return len(one) == len(two) and all(map(_are_same, one, two))


def _are_same(one: NDArray[Any], two: NDArray[Any]) -> bool:
    # A weight that is not trained may be NaN. Words cannot.
    return np.array_equal(one, two, equal_nan=np.issubdtype(one.dtype, np.inexact))
