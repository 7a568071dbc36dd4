"""The layers of a model, and what those have that model() adapts to data.

Called by model, and by checkpoints and the export. model() may adapt them to other data in each
process, such as a sample; but the weights that are restored were trained with what was learned in
another. A checkpoint has the statistics, which layers compute with copies of, and no vocabularies.
Called by session as well: members that train together have to compute alike.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import tensorflow as tf

from tftrainer import tf_types

_LOG = logging.getLogger(__name__)
_LOOKUPS = (tf.keras.layers.StringLookup, tf.keras.layers.IntegerLookup)
_COPYING = (tf.keras.layers.Normalization, tf.keras.layers.Discretization, *_LOOKUPS)
_VOCABULARIES, _STATISTICS = "vocabularies", "statistics"


def all_in(model: tf_types.Model) -> Iterator[tf_types.Layer]:
    """Yield all layers of a model, those within others too; none of what is no Keras model."""
    if isinstance(model, tf.keras.Model):
        # Keras has no public word for the layers within layers.
        yield from model._flatten_layers()  # noqa: SLF001


def own(model: tf_types.Model) -> dict[str, type]:
    """Return the classes of layers that are not Keras's, by name, as its custom objects."""
    classes = {type(layer) for layer in all_in(model)}
    return {each.__name__: each for each in classes if each.__module__.split(".")[0] != "tf_keras"}


def vocabularies(model: tf_types.Model) -> str:
    """Return the vocabularies that lookup layers have learned, as `use_restored` takes them."""
    return json.dumps([_vocabulary(layer) for layer in _learning(model)])


def use_restored(model: tf_types.Model, learned: str | None) -> None:
    """Have layers compute with the variables that were restored, and with these vocabularies.

    None leaves the vocabularies as they are. Raises ValueError for one that a layer cannot take.
    """
    if learned is not None:
        _set_vocabularies(model, json.loads(learned))
    for layer in all_in(model):
        if isinstance(layer, _COPYING):
            layer.finalize_state()


def learned(model: tf_types.Model) -> str:
    """Return all that layers have learned, as `use_learned` takes it."""
    values = [each.numpy().tolist() for each in _statistics(model)]
    return json.dumps({_VOCABULARIES: vocabularies(model), _STATISTICS: values})


def use_learned(model: tf_types.Model, text: str) -> None:
    """Have layers compute with what those of the same model have learned in another process."""
    known = json.loads(text)
    for variable, value in zip(_statistics(model), known[_STATISTICS], strict=True):
        variable.assign(value)
    use_restored(model, known[_VOCABULARIES])


def has_adapted_bins(model: tf_types.Model) -> bool:
    """Whether a layer has learned boundaries, which Keras does not read from a file again."""
    return any(
        isinstance(layer, tf.keras.layers.Discretization) and layer.input_bin_boundaries is None
        for layer in all_in(model)
    )


def _statistics(model: tf_types.Model) -> list[tf_types.Variable]:
    """Return the variables that adapt() sets."""
    held = [
        each for layer in all_in(model) if isinstance(layer, _COPYING) for each in layer.variables
    ]
    # Among them Keras has vocabularies, which are none.
    return [each for each in held if isinstance(each, tf.Variable)]


def _learning(model: tf_types.Model) -> Iterator[tf_types.Layer]:
    """Yield the lookup layers that were not given a vocabulary when they were made."""
    for layer in all_in(model):
        if isinstance(layer, _LOOKUPS) and layer.input_vocabulary is None:
            yield layer


def _vocabulary(layer: tf_types.Layer) -> list[str] | list[int]:
    return np.asarray(layer.get_vocabulary(include_special_tokens=False)).tolist()  # type: ignore[no-any-return]


def _set_vocabularies(model: tf_types.Model, learned: list[list[str] | list[int]]) -> None:
    found = list(_learning(model))
    if len(found) != len(learned):
        _LOG.warning(
            "the checkpoint has the vocabularies of %d adapted layers, the model has %d such "
            "layers: they keep what they have learned now",
            len(learned),
            len(found),
        )
        return
    # Under ParameterServer, workers get a table of their own in the scope.
    with model.distribute_strategy.scope() if found else nullcontext():
        for layer, known in zip(found, learned, strict=True):
            # A function that was traced already knows the table of before alone.
            if known != _vocabulary(layer):
                _set_vocabulary(layer, known)


def _set_vocabulary(layer: tf_types.Layer, known: list[str] | list[int]) -> None:
    # The weights of its words are variables, which are restored as others are.
    weights = {"idf_weights": False} if layer.output_mode == "tf_idf" else {}
    try:
        layer.set_vocabulary(known, **weights)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
