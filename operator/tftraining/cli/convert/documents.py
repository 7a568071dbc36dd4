"""The documents of a YAML file, converted one by one, with their comments.

What is not of the kind that is converted stays as it is, so that a converted file converts to
itself.
"""

import io
import json
import re
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

from tftraining.cli.convert.directions import Direction
from tftraining.cli.convert.findings import Conversion
from tftraining.errors import InputError
from tftraining.manifest import json_of
from tftraining.yaml_text import is_ambiguous

_WIDTH = 4096
_HEAD = re.compile(r"(?:[ \t]*(?:#.*)?\n)+(?=---\s)")
"""Comments before the first document, such as a licence, which the parser passes over."""
_BOOLEAN = re.compile("y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF")
"""What is a boolean to kubectl, and no longer in YAML 1.2."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted file."""

    text: str
    """The file's documents, without jobs that cannot be converted."""
    conversions: tuple[Conversion, ...]
    """What became of each job."""


def convert_text(text: str, source: str, direction: Direction) -> Converted:
    """Convert a file's text; `source` names it in messages. Raises InputError."""
    found = json_of(text)
    documents = [found] if found is not None else _loaded(text, source)
    conversions: list[Conversion] = []
    kept = [
        made
        for document in documents
        if (made := _converted(document, direction, conversions)) is not None
    ]
    if not conversions:
        return Converted(text, ())
    if found is not None:
        return Converted("".join(map(_json, kept)), tuple(conversions))
    return Converted(_head(text) + dumped(kept) if kept else "", tuple(conversions))


def dumped(documents: list[Any]) -> str:
    """Return documents as YAML."""
    out = io.StringIO()
    _yaml().dump_all(documents, out)
    return out.getvalue()


def _loaded(text: str, source: str) -> list[Any]:
    try:
        return list(_yaml().load_all(text))
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{source}{line}: invalid YAML: {error.problem}") from error
    except YAMLError as error:
        raise InputError(f"{source}: invalid YAML: {error}") from error


def _head(text: str) -> str:
    """Return the comments before a text's first document, "" without any."""
    found = _HEAD.match(text)
    return f"{found[0]}---\n" if found is not None and found[0].strip() else ""


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def _converted(document: Any, direction: Direction, found: list[Conversion]) -> Any:  # noqa: ANN401
    if not isinstance(document, dict):
        return document
    if document.get("kind") == direction.kind:
        conversion = direction.convert(document)
        found.append(conversion)
        return conversion.job
    if str(document.get("kind")).endswith("List") and isinstance(document.get("items"), list):
        return _converted_list(document, direction, found)
    return document


def _converted_list(document: Any, direction: Direction, found: list[Conversion]) -> Any:  # noqa: ANN401
    """Convert the items of a List, such as kubectl prints; nothing is left of an empty one."""
    items = document["items"]
    made = [_converted(item, direction, found) for item in items]
    for number in reversed(range(len(made))):  # in place, as the list carries the comments
        if made[number] is None:
            del items[number]
        else:
            items[number] = made[number]
    if document.get("kind") == f"{direction.kind}List":
        document["apiVersion"], document["kind"] = "v1", "List"
    return document if items else None


class _Constructor(RoundTripConstructor):
    """Keeps a date as text, as in JSON, which kubectl converts the file to."""


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", RoundTripConstructor.construct_scalar)


class _Resolver(VersionedResolver):
    """Takes for a boolean what kubectl takes for one."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:  # noqa: ANN401 - the base's form
        """Return the tag of a node."""
        if kind is ScalarNode and implicit[0] and _BOOLEAN.fullmatch(value):
            return Tag(suffix="tag:yaml.org,2002:bool")
        return super().resolve(kind, value, implicit)


class _Representer(RoundTripRepresenter):
    """Quotes strings that other parsers read as something else."""

    def represent_text(self, text: str) -> ScalarNode:
        """Return the node of a string that was not quoted in the file, or was in none."""
        style = "'" if is_ambiguous(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _Representer.represent_text)


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    yaml.Resolver = _Resolver
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.explicit_start = None
    return yaml
