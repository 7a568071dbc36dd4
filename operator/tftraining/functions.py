"""Makes the file of a task from functions that were defined in a notebook or a program.

The file gets the source of the functions and of what they use: functions and classes of the same
notebook, imports, and simple values. What cannot be written as source is refused with its name.
"""

import __future__

import ast
import builtins
import contextlib
import dis
import inspect
import linecache
import math
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tftraining.errors import InputError

Function = Callable[..., Any]

_CONTRACT = ("model", "dataset")
_KNOWN = (*_CONTRACT, "train_step", "test_step", "callbacks", "export", "loss", "optimizer")
_SIMPLE = (bool, int, str, bytes, type(None))
_IMPLICIT = frozenset({"__name__", "__file__", "__doc__", "__module__", "__qualname__"})
_OF_NOTEBOOKS = {"get_ipython": "get_ipython (also by % or !)", "display": "display"}
"""What IPython adds to the builtins."""
_TF_KERAS = re.compile(r"(keras\._tf_keras|tf_keras\.api\._v2)\.keras\b")
"""What modules of `tensorflow.keras` are called, by which Keras it is here: the trainer has its
own."""
_POSTPONED = __future__.annotations.compiler_flag
"""Of code after `from __future__ import annotations`: names in its annotations need not exist."""


def source(given: Sequence[Function] | Mapping[str, Function]) -> str:
    """Return the source of a task with these functions. Raises InputError.

    `given` are functions called as the contract says, or the functions by those names.
    """
    named = _named(given)
    written = {name: inspect.unwrap(function) for name, function in named.items()}
    parts = _Parts({"__main__", *(function.__module__ for function in written.values())})
    for name, function in named.items():
        own = written[name].__name__
        parts.add(own, function, f"functions: {name}")
        if own != name:
            parts.rest.append(f"{name} = {own}")
    return parts.text()


def _named(given: Sequence[Function] | Mapping[str, Function]) -> dict[str, Function]:
    if isinstance(given, Mapping):
        named = dict(given)
    elif callable(given):
        raise InputError("functions: must be a list such as [model, dataset], or a dict of them")
    else:
        named = {getattr(each, "__name__", str(each)): each for each in given}
    for name, function in named.items():
        if name not in _KNOWN:
            raise InputError(
                f"functions: {name} is not a name that the trainer knows ({', '.join(_KNOWN)});"
                f' name it with functions={{"model": {name}, …}}'
            )
        if not _is_function(function) or inspect.unwrap(function).__name__ == "<lambda>":
            raise InputError(f"functions: {name} must be a function that is defined with def")
    missing = [name for name in _CONTRACT if name not in named]
    if missing:
        raise InputError(f"functions: a task needs {' and '.join(missing)} as well")
    return named


class _Parts:
    """The parts of the file, each name once."""

    def __init__(self, modules: set[str]) -> None:
        self._modules = modules
        """Those whose functions and classes are written into the file, and not imported."""
        self.imports: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.definitions: dict[str, str] = {}
        self.rest: list[str] = []
        self._objects: dict[str, object] = {}
        self._postponed = False
        """Whether annotations must not be evaluated."""

    def add(self, name: str, found: object, user: str) -> None:
        """Add what `name` stands for, and what that uses. `user` says who uses it."""
        if name in self._objects:
            if self._objects[name] is not found:
                raise InputError(f"{user}: two different objects are called {name}; rename one")
            return
        self._objects[name] = found
        if isinstance(found, types.ModuleType):
            self.imports[name] = _import(found.__name__, name)
        elif _is_simple(found):
            self.values[name] = f"{name} = {found!r}"
        elif self._is_own(found):
            self._define(name, found, user)
        else:
            self.imports[name] = _import_from(name, found, user)

    def text(self) -> str:
        """Return the whole file."""
        future = ["from __future__ import annotations"] if self._postponed else []
        head = "\n".join([*future, *self.imports.values(), *self.values.values()])
        blocks = [head, *self.definitions.values(), "\n".join(self.rest)]
        return "\n\n\n".join(block for block in blocks if block) + "\n"

    def _is_own(self, found: object) -> bool:
        """Tell whether it is a function, as it is or decorated, or a class of the notebook."""
        if not isinstance(found, type) and not _is_function(found):
            return False
        return _undecorated(found).__module__ in self._modules

    def _define(self, name: str, found: object, user: str) -> None:
        plain = _undecorated(found)
        scope, own = _globals_of(plain), plain.__name__
        if own != name and scope.get(own) is found:
            self.add(own, found, user)
            self.definitions[name] = f"{name} = {own}"
            return
        if getattr(plain, "__closure__", None):
            keeps = "" if own == name else "; decorators have to keep its name (functools.wraps)"
            raise InputError(
                f"{name}() uses variables of the function that it is defined in: define it at the"
                f" top level of the notebook{keeps}"
            )
        text = _source_of(name, plain)
        flags = _flags_of(plain)
        tree = _checked(name, text, is_decorated=found is not plain)
        for used in _names(compile(tree, f"<{name}>", "exec", flags, dont_inherit=True)):
            if _is_python_own(used, scope):
                if used in _OF_NOTEBOOKS:
                    raise InputError(
                        f"{name}() uses {_OF_NOTEBOOKS[used]}, which the trainer has not: remove it"
                    )
            elif scope[used] is not found:
                self.add(used, scope[used], f"{name}()")
                self.imports |= _submodules(tree, used, scope[used])
        # After what it uses: a class needs its bases, a decorator its function.
        self.definitions[name] = text.strip()
        self._postponed = self._postponed or bool(flags)


def _is_function(found: object) -> bool:
    """Tell whether it is a function, also a decorated one."""
    # Asked of its own attributes only: some objects claim to have every attribute.
    is_decorated = "__wrapped__" in getattr(found, "__dict__", {})
    return (is_decorated or isinstance(found, types.FunctionType)) and isinstance(
        _undecorated(found), types.FunctionType
    )


def _undecorated(found: Any) -> Any:  # noqa: ANN401 - a function or a class, if found is one
    """Return what was written: of a function what its decorators were given."""
    return found if isinstance(found, type) else inspect.unwrap(found)


def _checked(name: str, text: str, *, is_decorated: bool) -> ast.Module:
    """Return the syntax tree of a source that defines the name. Raises InputError."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = ast.Module([], [])
    bound = {
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    first = tree.body[0] if tree.body else None
    if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        bound = {first.name}
        if is_decorated and not first.decorator_list:
            raise InputError(
                f"{name}() is wrapped by another function: write that as a decorator (@…) of it"
            )
    if name not in bound:
        raise InputError(f"{name}: its source does not define that name: define it with def {name}")
    return tree


def _source_of(name: str, found: types.FunctionType | type) -> str:
    try:
        if isinstance(found, type):
            return _source_of_class(found)
        return textwrap.dedent(inspect.getsource(found))
    except (OSError, TypeError) as error:
        raise InputError(
            f"{name}: its source is not known: define it by def or class in a notebook or a file,"
            " and not in an interactive Python"
        ) from error


def _source_of_class(found: type) -> str:
    """Return a class as it stands in the cell or file of its methods, or in the newest cell.

    inspect looks for it in the file of its module, which a notebook's `__main__` does not have.
    """
    for member in vars(found).values():
        if isinstance(member, types.FunctionType):
            text = "".join(linecache.getlines(member.__code__.co_filename))
            if (written := _class_in(text, found.__name__)) is not None:
                return written
    if found.__module__ == "__main__":
        for cell in _cells():
            with contextlib.suppress(SyntaxError):
                if (written := _class_in(cell, found.__name__)) is not None:
                    return written
    return textwrap.dedent(inspect.getsource(found))


def _class_in(text: str, name: str) -> str | None:
    """Return the source of a class in a text, None if it is not there."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return textwrap.dedent("\n".join(text.splitlines()[first - 1 : node.end_lineno]))
    return None


def _cells() -> list[str]:
    """Return the cells that this notebook has run, the newest first."""
    cells = getattr(sys.modules["__main__"], "In", None)  # where IPython keeps them
    return [str(cell) for cell in reversed(cells)] if isinstance(cells, list) else []


def _globals_of(found: types.FunctionType | type) -> Mapping[str, object]:
    if isinstance(found, types.FunctionType):
        return found.__globals__
    module = inspect.getmodule(found)
    return vars(module) if module is not None else {}


def _flags_of(found: types.FunctionType | type) -> int:
    """Return _POSTPONED if the code of a function, or of a method, was compiled so."""
    members = vars(found).values() if isinstance(found, type) else (found,)
    codes = (each.__code__ for each in members if isinstance(each, types.FunctionType))
    return _POSTPONED if any(code.co_flags & _POSTPONED for code in codes) else 0


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the global names that code reads, in its functions and classes as well."""
    own = set(_IMPLICIT)
    for each in dis.get_instructions(code):
        if each.opname == "STORE_NAME":
            own.add(each.argval)
        elif each.opname in ("LOAD_GLOBAL", "LOAD_NAME") and each.argval not in own:
            yield each.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _submodules(tree: ast.Module, name: str, found: object) -> dict[str, str]:
    """Return imports of the parts of a package that are used as its attributes.

    `import xml.etree.ElementTree` binds `xml` alone, and `import xml` does not import the rest.
    """
    imports: dict[str, str] = {}
    if not isinstance(found, types.ModuleType) or found.__name__ != name:
        return imports
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            path = ast.unparse(node)
            if path.startswith(f"{name}.") and isinstance(sys.modules.get(path), types.ModuleType):
                imports[path] = f"import {path}"
    return imports


def _is_python_own(name: str, scope: Mapping[str, object]) -> bool:
    """Tell whether it is a builtin, or what IPython has in its place, such as open and exit."""
    if name not in scope:
        return True  # or something that nobody has
    if not hasattr(builtins, name):
        return False
    found = scope[name]
    module = getattr(found, "__module__", None) or ""
    return found is getattr(builtins, name) or module.partition(".")[0] == "IPython"


def _is_simple(found: object) -> bool:
    """Tell whether repr() gives the source of an equal value."""
    if type(found) in (list, tuple):
        return all(map(_is_simple, found))  # type: ignore[call-overload]
    if type(found) is dict:
        return all(map(_is_simple, [*found, *found.values()]))
    if type(found) is float:
        return math.isfinite(found)
    return type(found) in _SIMPLE


def _import(module: str, name: str) -> str:
    module = _TF_KERAS.sub("tensorflow.keras", module)
    top, _, last = module.rpartition(".")
    if module == name:
        return f"import {module}"
    if last == name and top:
        return f"from {top} import {name}"
    return f"import {module} as {name}"


def _import_from(name: str, found: object, user: str) -> str:
    module = getattr(found, "__module__", None)
    own = getattr(found, "__qualname__", getattr(found, "__name__", None))
    if module in (None, "__main__", "builtins") or not isinstance(own, str) or "." in own:
        raise InputError(
            f"{user} uses {name}, a {type(found).__name__}, which cannot be written into the file"
            " of the task: make it inside of the function, or pass a file to train()"
        )
    if module.startswith("keras.src."):
        # Also what is imported from tensorflow.keras, where Keras 3 is installed.
        raise InputError(
            f"{user} uses {name} of Keras 3, which the trainer does not take: use it as an"
            " attribute of tf.keras (import tensorflow as tf), or import it inside of the function"
        )
    return f"from {module} import {own}" + ("" if own == name else f" as {name}")
