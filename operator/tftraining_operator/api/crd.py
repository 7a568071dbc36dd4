"""The CustomResourceDefinition, made of the models and the rules. Pure but for `main`.

`python -m tftraining_operator.api.crd` prints it, byte for byte the same each time;
`--write ROOT` writes the copies that are kept in a checkout of the repository, and `--check ROOT`
names those that differ from it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tftraining_operator.api import docstrings, keys
from tftraining_operator.api.rules import RULES
from tftraining_operator.api.status import Status
from tftraining_operator.api.transitions import TRANSITIONS, TransitionRule
from tftraining_operator.api.types import Spec

if TYPE_CHECKING:
    from tftraining_operator.api.rule import Rule

Schema = dict[str, Any]

NAME = f"{keys.PLURAL}.{keys.GROUP}"

COPIES = (
    f"crds/{keys.GROUP}_{keys.PLURAL}.yaml",
    f"charts/tftraining-operator/files/{keys.GROUP}_{keys.PLURAL}.yaml",
)
"""Where the text is kept, relative to the repository's root: to apply, and inside the chart."""

_HEADER = "# Generated from operator/tftraining_operator/api by `make manifests`; do not edit.\n"

_COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("State", "string", ".status.state", 0),
    ("Workers", "string", ".status.replicas.worker", 0),
    ("PS", "string", ".status.replicas.ps", 0),
    ("Progress", "string", ".status.progress.percentText", 0),
    ("Restarts", "integer", ".status.restarts", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Step", "integer", ".status.progress.step", 1),
    ("Loss", "string", ".status.progress.loss", 1),
    ("ETA", "string", ".status.progress.etaText", 1),
    ("Model", "string", ".status.model.path", 1),
    ("Message", "string", ".status.message", 1),
)
"""Name, type, path and priority; kubectl shows priority 1 with -o wide only."""

_KEPT = frozenset(
    {"type", "required", "enum", "pattern", "minimum", "maximum"}
    | {"minLength", "maxLength", "minItems", "maxItems", "maxProperties"}
)
"""What pydantic emits and a structural schema says in the same way."""

_DROPPED = frozenset({"title", "$defs"})

_ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}

_SEEN: dict[str | None, set[str]] = {
    "PodSpec": (
        {"affinity", "hostNetwork", "imagePullSecrets", "nodeSelector"}
        | {"priorityClassName", "runtimeClassName", "schedulerName", "securityContext"}
        | {"serviceAccountName", "terminationGracePeriodSeconds", "tolerations"}
        | {"topologySpreadConstraints", "volumes"}
    ),
    "Container": (
        {"args", "command", "envFrom", "imagePullPolicy", "ports", "resources"}
        | {"securityContext", "volumeMounts", "workingDir"}
    ),
}
"""Fields of a template that are declared, though they may hold anything, so that CEL sees them.

The API server's == takes two objects for equal of which one has an undeclared field and the other
another in its place: turning command into args would pass for no change of the template.
"""


def crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition as a plain object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": keys.GROUP,
            "names": {
                "kind": keys.KIND,
                "listKind": f"{keys.KIND}List",
                "plural": keys.PLURAL,
                "singular": keys.SINGULAR,
                "shortNames": [keys.SHORT_NAME],
                "categories": ["ml", "training"],
            },
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }


def render() -> str:
    """Return the definition as YAML, always the same bytes for the same models."""
    # No aliases: two equal lists of rules must not become an anchor and a reference.
    dumper = type("_Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    text: str = yaml.dump(crd(), Dumper=dumper, sort_keys=False, width=100, allow_unicode=True)
    return _HEADER + text


def _version() -> dict[str, Any]:
    return {
        "name": keys.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.worker.replicas",
                "statusReplicasPath": ".status.workerReplicas",
                "labelSelectorPath": ".status.workerSelector",
            },
        },
        "selectableFields": [
            {"jsonPath": ".spec.runPolicy.suspend"},
            {"jsonPath": ".status.state"},
            {"jsonPath": f".{keys.FIELD_BUCKET}"},
        ],
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path}
            | ({"priority": priority} if priority else {})
            for name, type_, path, priority in _COLUMNS
        ],
    }


def schema() -> Schema:
    """Return the structural schema of the whole object, rules included."""
    root: Schema = {
        "type": "object",
        "description": "One distributed TensorFlow training, from its start to its end.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": of_model(Spec),
            "status": _of_status(),
        },
    }
    rules: list[Rule | TransitionRule] = [*RULES, *TRANSITIONS]
    for rule in rules:
        node = root
        for part in filter(None, rule.node.split(".")):
            node = node["properties"][part]
        node.setdefault("x-kubernetes-validations", []).append(_validation(rule))
    return root


def of_model(model: type[Spec | Status]) -> Schema:
    """Return the structural schema of one model."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    for name, found in docstrings.models(model).items():
        fields = raw["$defs"][name] if found is not model else raw
        for field, text in docstrings.of_fields(found).items():
            fields["properties"][field].setdefault("description", text)
    return _structural(raw, raw.get("$defs", {}), model.__name__)


def _of_status() -> Schema:
    """Return the status' schema, which operators of several versions write in turn.

    What another version stores is kept. Nothing has a default: the version before removes each
    field that it does not know, and a default would bring the field back, as a change for ever.
    """
    without = _without_defaults(of_model(Status))
    return without | {"x-kubernetes-preserve-unknown-fields": True}


def _without_defaults(node: Schema) -> Schema:
    found = {key: value for key, value in node.items() if key != "default"}
    if "properties" in node:
        inner = {name: _without_defaults(each) for name, each in node["properties"].items()}
        found["properties"] = inner
    if "items" in node:
        found["items"] = _without_defaults(node["items"])
    return found


def _structural(given: Schema, defs: dict[str, Schema], path: str) -> Schema:
    """Rewrite one node of pydantic's JSON schema; raise at what a CRD could not say."""
    node = _flat(given, defs)
    found: Schema = {}
    for key, value in node.items():
        if key == "properties":
            children = {n: _structural(v, defs, f"{path}.{n}") for n, v in value.items()}
            children |= dict.fromkeys(sorted(_SEEN.get(node.get("title"), ())), _ANYTHING)
            # An empty map the API server drops; every `kubectl apply` would find it missing.
            found |= {key: children} if children else {}
        elif key == "items":
            found[key] = _structural(value, defs, f"{path}[]")
        elif key == "additionalProperties" and isinstance(value, dict):
            found[key] = _structural(value, defs, f"{path}.*")
        else:
            found |= _word(key, value, node, path)
    return {key: found[key] for key in _ORDER if key in found} | found


def _word(key: str, value: Any, node: Schema, path: str) -> Schema:  # noqa: ANN401
    """Rewrite one word of a node that holds no other node."""
    if (key, value) == ("additionalProperties", True):
        return {"x-kubernetes-preserve-unknown-fields": True}
    # Of a refused unknown field there is nothing to say: strict validation refuses it.
    if key in _DROPPED or (key, value) == ("additionalProperties", False):
        return {}
    if key == "default":
        return _default(value, node)
    if key == "description":
        return {key: " ".join(value.split())}
    if key in _KEPT or key.startswith("x-kubernetes-"):
        return {key: value}
    raise ValueError(f"{path}: a CRD cannot say {key}: {value}")


_ORDER = ("description", "type", "default", "required", "properties")


def _flat(given: Schema, defs: dict[str, Schema]) -> Schema:
    """Follow $ref and drop the null of `X | None`: absence is how an API object says none."""
    node = dict(given)
    while "$ref" in node or "anyOf" in node:
        if "$ref" in node:
            inner = defs[node.pop("$ref").removeprefix("#/$defs/")]
        else:
            choices = [c for c in node.pop("anyOf") if c.get("type") != "null"]
            if len(choices) != 1:
                raise ValueError(f"a CRD cannot say one of {choices}")
            inner = choices[0]
        node = inner | node
    return node


def _default(value: object, node: Schema) -> Schema:
    if value is None:
        return {}
    # A nested object's defaults stand at its own fields; {} makes the API server visit them.
    is_object = node.get("type") == "object" and "properties" in node
    return {"default": {} if is_object else value}


def _validation(rule: Rule | TransitionRule) -> Schema:
    entry = {"rule": rule.cel, "message": rule.message}
    below = rule.field.removeprefix(rule.node).removeprefix(".")
    # Metadata's schema is the API server's own: no path leads into it.
    if below and not below.startswith("metadata."):
        entry["fieldPath"] = f".{below}"
    return entry


def main(argv: list[str] | None = None) -> int:
    """Print the definition, write its copies or check them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tftraining_operator.api.crd")
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--write", metavar="ROOT", type=Path, help="write the copies in this checkout"
    )
    action.add_argument(
        "--check", metavar="ROOT", type=Path, help="exit 1 if a copy in this checkout differs"
    )
    given = parser.parse_args(argv)
    if given.check:
        return _check(given.check)
    if given.write:
        _write(given.write)
    else:
        sys.stdout.write(render())
    return 0


def _write(root: Path) -> None:
    for copy in COPIES:
        target = root / copy
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(render().encode())


def _check(root: Path) -> int:
    expected = render().encode()
    paths = [root / copy for copy in COPIES]
    wrong = [path for path in paths if not path.is_file() or path.read_bytes() != expected]
    for path in wrong:
        sys.stderr.write(f"{path} is not what the models make: run `make manifests`\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
