"""The documents of a YAML file, converted one by one, with their comments.

What is not of the kind that is converted stays as it is, so that a converted file converts to
itself.
"""

import io
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tftraining.cli.convert.directions import Direction
from tftraining.cli.convert.findings import Conversion
from tftraining.errors import InputError

_WIDTH = 4096


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted file."""

    text: str
    """The file's documents, without jobs that cannot be converted."""
    conversions: tuple[Conversion, ...]
    """What became of each job."""


def convert_text(text: str, source: str, direction: Direction) -> Converted:
    """Convert a file's text; `source` names it in messages. Raises InputError."""
    yaml = _yaml()
    try:
        documents = list(yaml.load_all(text))
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{source}{line}: invalid YAML: {error.problem}") from error
    except YAMLError as error:
        raise InputError(f"{source}: invalid YAML: {error}") from error
    conversions: list[Conversion] = []
    kept = [
        made
        for document in documents
        if (made := _converted(document, direction, conversions)) is not None
    ]
    if not conversions:
        return Converted(text, ())
    return Converted(dumped(kept), tuple(conversions))


def dumped(documents: list[Any]) -> str:
    """Return documents as YAML."""
    out = io.StringIO()
    _yaml().dump_all(documents, out)
    return out.getvalue()


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


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.explicit_start = None
    return yaml
