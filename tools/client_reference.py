"""Writes docs/reference/client.md from signatures and docstrings of the client (`make manifests`).

tests/unit/tools/test_client_reference.py fails where the page is outdated.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import FunctionType

import tftraining
from tftraining import client, metrics
from tftraining.aio import AsyncTFTrainingClient
from tftraining.client import TFTrainingClient
from tftraining.errors import TFTrainingError
from tftraining.job import TrainingJob
from tftraining.metrics import MetricRecord
from tftraining.view.log_lines import Line

from tools.pages import table

PAGE = Path(__file__).parents[1] / "docs/reference/client.md"

_INTRODUCTION = """# Reference of the Python client

All methods with their parameters, types and defaults, from the client's own signatures and
docstrings: `make manifests` generates this page. How to use it: [guide](../guide/client.md).
"""
_VALUES = (TrainingJob, MetricRecord, Line)
"""What the methods return, apart from text."""
_ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
_WIDTH = 88


class UndocumentedError(Exception):
    """Something public has no docstring; the text names it."""


def rendered() -> str:
    """Return the page. Raises UndocumentedError."""
    parts = [_INTRODUCTION, *_client(TFTrainingClient), *_asynchronous()]
    for kind in _VALUES:
        parts += [f"## {kind.__name__}\n", f"{_doc(kind)}\n", attributes(kind), ""]
    parts += ["## Errors\n", f"`TFTrainingError`: {_doc(TFTrainingError)}\n", _errors()]
    return "\n".join(parts) + "\n"


def _client(kind: type) -> Iterator[str]:
    found = _public(kind)
    yield f"## {kind.__name__}\n"
    yield f"{_doc(kind)}\n"
    yield from method(kind.__name__, vars(kind)["__init__"])
    yield f"{attributes(kind)}\n"
    rows = ((f"[`{name}`](#{name})", _doc(each).splitlines()[0]) for name, each in found.items())
    yield f"{table(('method', 'what it does'), rows, others='---')}\n"
    for name, each in found.items():
        yield f"### {name}\n"
        yield from method(name, each)


def _asynchronous() -> Iterator[str]:
    names = _public(AsyncTFTrainingClient)
    yield f"## {AsyncTFTrainingClient.__name__}\n"
    yield f"{_doc(AsyncTFTrainingClient)}\n"
    plain = [name for name, each in names.items() if not inspect.isasyncgenfunction(each)]
    yield f"To be awaited: {', '.join(f'[`{name}`](#{name})' for name in plain)}.\n"
    loops = [f"[`{name}`](#{name})" for name in names if name not in plain]
    yield f"To be iterated with `async for`: {', '.join(loops)}.\n"


def method(name: str, function: FunctionType) -> Iterator[str]:
    """Yield signature, description and arguments of a method. Raises UndocumentedError."""
    text, _, arguments = _doc(function).partition("\n\nArgs:\n")
    yield f"```python\n{signature(name, function)}\n```\n"
    yield f"{text}\n"
    if arguments:
        rows = ((f"`{key}`", _cell(said)) for key, said in _ARGUMENT.findall(arguments))
        yield f"{table(('argument', 'meaning'), rows, others='---')}\n"


def signature(name: str, function: FunctionType) -> str:
    """Return a signature as people write it, without self, on one line if it fits."""
    found = inspect.signature(function)
    parts: list[str] = []
    for each in list(found.parameters.values())[1:]:
        if each.kind is each.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        parts.append(f"{each.name}: {_expanded(each.annotation)}{default}")
    returned = (
        "" if function.__name__ == "__init__" else f" -> {_expanded(found.return_annotation)}"
    )
    line = f"{name}({', '.join(parts)}){returned}"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


def attributes(kind: type) -> str:
    """Return the table of fields and properties of a class. Raises UndocumentedError."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = [each for each in _attributes(tree) if not each[0].startswith("_")]
    if bare := [name for name, _, said in found if not said]:
        raise UndocumentedError(f"{kind.__name__}.{bare[0]} has no docstring")
    rows = (
        (f"`{name}`", f"`{_cell(_expanded(type_))}`", _cell(said)) for name, type_, said in found
    )
    return table(("attribute", "type", "meaning"), rows, others="---")


def _attributes(tree: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign):
            said = after.value if isinstance(after, ast.Expr) else None
            text = str(said.value) if isinstance(said, ast.Constant) else ""
            yield ast.unparse(node.target), ast.unparse(node.annotation), text
        elif isinstance(node, ast.FunctionDef) and _is_property(node):
            returned = ast.unparse(node.returns) if node.returns is not None else ""
            yield node.name, returned, ast.get_docstring(node) or ""


def _is_property(node: ast.FunctionDef) -> bool:
    return "property" in map(ast.unparse, node.decorator_list)


def _public(kind: type) -> dict[str, FunctionType]:
    found = inspect.getmembers_static(kind, inspect.isfunction)
    public = {name: each for name, each in found if not name.startswith("_")}
    return {name: public[name] for name in vars(kind) if name in public}  # as in the source


def _doc(found: object) -> str:
    if not (text := inspect.getdoc(found)):
        raise UndocumentedError(f"{found} has no docstring")
    return text


@cache
def _aliases() -> Mapping[str, str]:
    """Return the client's names for types, also those that only a type checker sees."""
    trees = (ast.parse(inspect.getsource(module)) for module in (client, metrics))
    return {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in chain.from_iterable(map(ast.walk, trees))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
    }


def _expanded(annotation: str) -> str:
    return re.sub(r"\b\w+\b", lambda name: _aliases().get(name[0], name[0]), annotation)


def _default(value: object) -> str:
    return "..." if callable(value) else repr(value)


def _errors() -> str:
    public = (getattr(tftraining, name) for name in tftraining.__all__)
    found = [each for each in public if issubclass(each, TFTrainingError)]
    rows = (
        (
            f"`{each.__name__}`",
            f"`{each.__base__.__name__}`",
            str(int(each.code)),
            _cell(_doc(each)),
        )
        for each in found
        if each is not TFTrainingError
    )
    return table(("error", "is a", "exit code of `tftj`", "meaning"), rows, others="---")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write the page."""
    PAGE.write_text(rendered())


if __name__ == "__main__":
    main()
