"""Names of inputs and variables as a SavedModel takes them; called by export, exported_formats.

Keys of features are often columns of a table, such as "petal length", which train and cannot be
saved: a signature is called as Python is, and a graph takes few other characters.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tftrainer import tf_types

_NOT_OF_INPUTS = re.compile(r"[^A-Za-z0-9_]")
_NOT_OF_VARIABLES = re.compile(r"[^A-Za-z0-9_.\\/>-]")
# TensorFlow's own prefix for an argument that would begin with something else than a letter.
_PREFIX = "arg_"
# TensorFlow calls a signature as a method, with the inputs as keyword arguments.
_RESERVED = "self"


def input_names(names: Iterable[str]) -> dict[str, str]:
    """Return what the inputs of these names are called in a signature; no two are alike there."""
    given = [str(name) for name in names]
    found: dict[str, str] = {}
    taken = {_RESERVED}
    # Those that can keep their names do.
    for name in sorted(given, key=lambda each: _input_name(each) != each):
        found[name] = _distinct(_input_name(name), taken)
        # TensorFlow compares them in lower case.
        taken.add(found[name].lower())
    return {name: found[name] for name in given}


def with_saved_variables() -> AbstractContextManager[None]:
    """Have the variables that are made in this block be named as a graph takes it."""

    def creator(create: Callable[..., tf_types.Variable], **given: Any) -> tf_types.Variable:  # noqa: ANN401
        if given.get("name"):
            given["name"] = _variable_name(given["name"])
        return create(**given)

    return tf.variable_creator_scope(creator)  # type: ignore[no-any-return]


def _input_name(name: str) -> str:
    legal = _NOT_OF_INPUTS.sub("_", name)
    return legal if legal[:1].isalpha() else f"{_PREFIX}{legal}"


def _variable_name(name: str) -> str:
    legal = _NOT_OF_VARIABLES.sub("_", name)
    return legal if re.match(r"[A-Za-z0-9.]", legal) else f"variable{legal}"


def _distinct(name: str, taken: set[str]) -> str:
    number, found = 0, name
    while found.lower() in taken:
        number += 1
        found = f"{name}_{number}"
    return found
