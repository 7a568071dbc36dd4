"""Writes docs/reference/fields.md, a row for every field of a job, from the CRD."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tftraining_operator.api.crd import schema

from tools.pages import table

PAGE = Path("docs/reference/fields.md")

_Object = dict[str, Any]

_INTRODUCTION = """# Fields of a job

Every field of a TFTrainingJob (`tftraining.dev/v1alpha1`), as `kubectl explain tftj.spec` has them
too. `make manifests` generates this page from the CustomResourceDefinition. What many jobs need:
[the job in YAML](../guide/job.md).
"""
_RULES = """
## Rules

What the API server refuses beyond types and bounds, in its words:

"""


def rendered() -> str:
    """Return the page."""
    root = schema()
    text = _INTRODUCTION
    for part in ("spec", "status"):
        head = ("field", "type", "default", "description")
        fields = rows(root["properties"][part], part)
        text += f"\n## {part}\n\n{table(head, fields, others='---')}\n"
    told: dict[str, list[str]] = {}
    for field, message in _rules(root, ""):
        told.setdefault(message, []).append(f"`{field}`")
    lines = (f"- {', '.join(fields)}: {message}\n" for message, fields in told.items())
    return text + _RULES + "".join(lines)


def rows(node: _Object, path: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield field, type, default and description of all fields below a node, depth first."""
    for name, child in node.get("properties", {}).items():
        field = f"{path}.{name}"
        default = f"`{json.dumps(child['default'])}`" if child.get("default", {}) != {} else ""
        yield f"`{field}`", _type(child), default, _cell(child.get("description", ""))
        if not child.get("x-kubernetes-preserve-unknown-fields"):  # a pod template: Kubernetes' own
            yield from rows(child, field)
            yield from rows(child.get("items", {}), f"{field}[]")


def _type(node: _Object) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node["type"] == "array":
        return f"array of {_type(node['items'])}s"
    return str(node["type"])


def _rules(node: _Object, path: str) -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", []):
        field = path + rule.get("fieldPath", "")
        # Those of the whole object that name no field are about its name.
        yield field.removeprefix(".") or "metadata.name", rule["message"]
    for name, child in node.get("properties", {}).items():
        yield from _rules(child, f"{path}.{name}".removeprefix("."))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description=f"Write {PAGE}.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    text = rendered()
    if not check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.stderr.write(f"{PAGE} is not up to date; run `make manifests`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
