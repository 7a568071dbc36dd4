"""Functions of a notebook become the file of a task, with what they use."""

from __future__ import annotations

import builtins
import concurrent.futures
import json
import math
import os.path as paths
import subprocess
import sys
from functools import cache, partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tftraining import functions
from tftraining.errors import InputError

# ruff: noqa: A001, ANN001, ANN002, ANN201, ANN202, ARG001, PTH118 - as people write them

UNITS = [16, 8]
SCALE = {"features": 2.0}
BROKEN = math.nan
LOCK = partial(print)
dir = "/data"
exit_of_python = exit


class Layer:
    """A class of the same notebook."""

    def __init__(self, units: int) -> None:
        self.units = units

    def describe(self) -> str:
        return paths.join("layers", str(self.units))


def build():
    layers = [Layer(units) for units in UNITS]
    return [layer.describe() for layer in layers]


def dataset(split, context):
    return json.dumps([split, half(SCALE["features"])])


def half(value):
    return value / 2 if value > 1 else half(value * 2)


def run(text: str) -> dict[str, Any]:
    """What a module with this text has."""
    scope: dict[str, Any] = {"__name__": "task"}
    exec(compile(text, "task.py", "exec", dont_inherit=True), scope)  # noqa: S102 - as a module
    return scope


def test_functions_bring_what_they_use() -> None:
    text = functions.source({"model": build, "dataset": dataset})
    task = run(text)
    assert task["model"]() == ["layers/16", "layers/8"]
    assert task["dataset"]("train", None) == '["train", 1.0]'
    assert "BROKEN" not in text, "nobody uses it"


def filter(values):
    return sorted(values)[1:]


def uses_names_of_builtins(split, context):
    return [dir, *filter([*range(2), *map(abs, [-7])])], exit


def test_a_name_of_a_builtin_may_be_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # IPython has functions and objects of its own in the place of some builtins.
    of_ipython = type("ExitAutocall", (), {"__module__": "IPython.core.autocall"})()
    monkeypatch.setitem(globals(), "exit", of_ipython)
    monkeypatch.setitem(globals(), "abs", abs)
    text = functions.source({"model": build, "dataset": uses_names_of_builtins})
    assert run(text)["dataset"]("train", None) == (["/data", 1, 7], exit_of_python)


def uses_keras():
    return keras.Sequential([layers.Dense(8), kl.Dense(4)])  # noqa: F821 - of a test


def uses_a_lock(split, context):
    return LOCK


Dense = type("Dense", (), {"__module__": "keras.src.layers.core.dense"})


def uses_a_layer(split, context):
    return Dense


def activation(value):
    return value * FACTOR


FACTOR = 3
act = activation
shift = lambda value: value + FACTOR  # noqa: E731 - as people write it
# fmt: off
bracketed = (  # noqa: E731 - as above
    lambda value: value - FACTOR
)
# fmt: on


def uses_other_names(split, context):
    return act(2), shift(2)


def uses_a_bracketed_lambda(split, context):
    return bracketed(2)


def uses_a_part_of_a_package(split, context):
    return concurrent.futures.FIRST_COMPLETED


def logged(function):
    @wraps(function)
    def logging(*given):
        return "logged", function(*given)

    return logging


@logged
def decorated(split, context):
    return cached(split)


@cache
def cached(split):
    return split * FACTOR


def undecorated(split, context):
    return split


wrapped = logged(undecorated)


def uses_a_wrapped_function(split, context):
    return wrapped(split, context)


def typed(split: Absent, context: Absent) -> Absent:  # noqa: F821 - of a type checker alone
    return split


CELL = """\
class Settings:
    units = 8
"""


def uses_a_magic(split, context):
    return get_ipython().run_line_magic("time", "split")  # noqa: F821 - as IPython writes it


def uses_the_display(split, context):
    display(split)  # noqa: F821 - IPython's


class Copied:
    FACTOR = FACTOR


def uses_a_class_with_the_name_of_a_value(split, context):
    return Copied.FACTOR


def uses_a_class_without_methods(split, context):
    return Settings().units  # noqa: F821 - of a test


def uses_nan(split, context):
    return BROKEN


def in_a_function():
    local = 3

    def dataset(split, context):
        return local

    return dataset


def test_functions_of_a_program_are_found_by_their_own_names() -> None:
    def model():
        return Path("/")

    assert run(functions.source([model, dataset]))["model"]() == Path("/")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"model": build}, "a task needs dataset as well", id="one is missing"),
        pytest.param([build, dataset], "build is not a name that the trainer knows", id="a name"),
        pytest.param({"model": lambda: 1, "dataset": dataset}, "defined with def", id="a lambda"),
        pytest.param(
            {"model": build, "dataset": uses_a_lock},
            r"uses_a_lock\(\) uses LOCK, a partial, which cannot be written",
            id="an object that has no source",
        ),
        pytest.param(
            {"model": build, "dataset": uses_a_layer},
            r"uses_a_layer\(\) uses Dense of Keras 3, .*: use it as an attribute of tf\.keras",
            id="a layer of Keras 3",
        ),
        pytest.param(
            {"model": build, "dataset": uses_nan},
            "uses BROKEN, a float",
            id="a value without source",
        ),
        pytest.param(
            {"model": build, "dataset": uses_a_bracketed_lambda},
            "bracketed: its source does not define that name: define it with def bracketed",
            id="a lambda that has no name in its source",
        ),
        pytest.param(
            {"model": build, "dataset": uses_a_wrapped_function},
            r"wrapped\(\) is wrapped by another function: write that as a decorator",
            id="a function that is wrapped by a call",
        ),
        pytest.param(
            {"model": build, "dataset": uses_a_magic},
            r"uses_a_magic\(\) uses get_ipython \(also by % or !\), which the trainer has not",
            id="a magic",
        ),
        pytest.param(
            {"model": build, "dataset": uses_the_display},
            r"uses_the_display\(\) uses display, which the trainer has not: remove it",
            id="the display of a notebook",
        ),
        pytest.param(
            {"model": build, "dataset": in_a_function()},
            r"dataset\(\) uses variables of the function that it is defined in",
            id="a closure",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(
    given: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_ipython = type("Method", (), {"__module__": "IPython.core.interactiveshell"})()
    monkeypatch.setitem(globals(), "get_ipython", of_ipython)
    monkeypatch.setattr(builtins, "get_ipython", of_ipython, raising=False)
    with pytest.raises(InputError, match=told):
        functions.source(given)


def test_other_names_of_functions_are_bound() -> None:
    text = functions.source({"model": build, "dataset": uses_other_names})
    assert run(text)["dataset"]("train", None) == (6, 5)


def test_a_part_of_a_package_is_imported() -> None:
    """`import concurrent.futures` binds `concurrent`, and to import that is not enough."""
    text = functions.source({"model": build, "dataset": uses_a_part_of_a_package})
    call = f"{text}\nprint(dataset(0, 0))"
    done = subprocess.run([sys.executable, "-I", "-c", call], capture_output=True, check=False)
    assert done.stdout == b"FIRST_COMPLETED\n", done.stderr.decode()


def test_decorators_go_along() -> None:
    text = functions.source({"model": build, "dataset": decorated})
    assert run(text)["dataset"]("ab", None) == ("logged", "ababab")
    assert run(functions.source({"model": build, "dataset": cached}))["dataset"]("a") == "aaa"


def test_annotations_are_not_evaluated_if_they_were_not_before() -> None:
    text = functions.source({"model": build, "dataset": typed})
    assert run(text)["dataset"]("train", None) == "train"


def test_a_class_may_call_something_of_its_own_by_the_name_of_a_value() -> None:
    given = {"model": build, "dataset": uses_a_class_with_the_name_of_a_value}
    assert run(functions.source(given))["dataset"]("train", None) == FACTOR


def test_a_class_without_methods_is_found_in_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, "<cell>", "exec"), scope)  # noqa: S102 - as a notebook does
    main = ModuleType("__main__")
    vars(main).update(scope, In=["", "class Settings: units = 1", "%broken", CELL, "1 + 1"])
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setitem(globals(), "Settings", scope["Settings"])
    text = functions.source({"model": build, "dataset": uses_a_class_without_methods})
    assert run(text)["dataset"]("train", None) == 8


@pytest.mark.parametrize("private", ["keras._tf_keras.keras", "tf_keras.api._v2.keras"])
def test_keras_is_that_of_tensorflow_whatever_the_notebook_has(
    monkeypatch: pytest.MonkeyPatch, private: str
) -> None:
    """What `from tensorflow import keras` gives has the name of a private module of Keras."""
    monkeypatch.setitem(globals(), "keras", ModuleType(private))
    monkeypatch.setitem(globals(), "layers", ModuleType(f"{private}.layers"))
    monkeypatch.setitem(globals(), "kl", ModuleType(f"{private}.layers"))
    lines = functions.source({"model": uses_keras, "dataset": dataset}).splitlines()
    assert lines[:4] == [
        "from __future__ import annotations",  # as in this file
        "from tensorflow import keras",
        "from tensorflow.keras import layers",
        "import tensorflow.keras.layers as kl",
    ]
