"""Writes the chart's README.md from its values and their schema (`make manifests`).

A value is described by the comment above it, or else by that above what it belongs to.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path("charts/tftraining-operator")
README = CHART / "README.md"

_KEY = re.compile(r"^( *)(\w+):")
_INDENT = 2

_Object = dict[str, Any]

_INTRODUCTION = """# {name}

{description}. `make manifests` generates this page from
`values.yaml`, `values.schema.json` and `Chart.yaml`.

    helm install tftraining . --namespace tftraining-system --create-namespace

Version {version}, operator {appVersion}, Kubernetes {kubeVersion}. `helm upgrade`
upgrades the CustomResourceDefinition too and restarts no training. What to monitor:
[monitoring](../../docs/guide/monitoring.md) and the [runbook](../../docs/runbook.md).

## Values

| value | type | default | description |
|---|---|---|---|
"""


class UndescribedError(Exception):
    """A value has no comment; the text names it."""


def described(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of every key of values.yaml, and the comment that describes it."""
    path: list[str] = []
    comments: list[str] = []
    found: dict[tuple[str, ...], str] = {}
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            comments.append(line.strip().removeprefix("#").strip())
        elif (key := _KEY.match(line)) is not None:
            path = [*path[: len(key[1]) // _INDENT], key[2]]
            where = tuple(path)
            found[where] = " ".join(comments) or found.get(where[:-1], "")
            comments = []
            yield where, found[where]
        else:
            comments = []


def rows(values: _Object, text: str, schema: _Object) -> Iterator[str]:
    """Yield a row for every value that can be set. Raises UndescribedError."""
    for path, description in described(text):
        value, node = _value(values, path), _node(schema, path)
        if node is None or "properties" in node:
            continue  # part of a value that is free, or a group of values
        name = ".".join(path)
        if not description:
            raise UndescribedError(f"{CHART}/values.yaml: {name} has no comment that describes it")
        cells = (f"`{name}`", _type(node), f"`{json.dumps(value)}`", description)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def rendered(chart: Path = CHART) -> str:
    """Return the README."""
    text = (chart / "values.yaml").read_text()
    schema = json.loads((chart / "values.schema.json").read_text())
    named = yaml.safe_load((chart / "Chart.yaml").read_text())
    return _INTRODUCTION.format(**named) + "".join(rows(yaml.safe_load(text), text, schema))


def _value(values: _Object, path: tuple[str, ...]) -> object:
    found: Any = values
    for key in path:
        found = found[key]
    return found


def _node(schema: _Object, path: tuple[str, ...]) -> _Object | None:
    """Return the schema of a value, None if the schema leaves it free."""
    node = schema
    for key in path:
        if key not in node.get("properties", {}):
            return None
        node = node["properties"][key]
        if "$ref" in node:
            node = schema["definitions"][node["$ref"].rpartition("/")[2]]
    return node


def _type(node: _Object) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    return " or ".join(node["type"]) if isinstance(node["type"], list) else str(node["type"])


def main() -> int:
    """Write the file, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the chart's README.md.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    text = rendered()
    if not check:
        README.write_text(text)
    elif not README.exists() or README.read_text() != text:
        sys.stderr.write(f"{README} is not up to date; run `make manifests`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
