"""Whether a TFTrainingJob, made or given, is one that the API server accepts."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from tftraining_operator.api import rules
from tftraining_operator.api.problems import from_error
from tftraining_operator.api.status import Status
from tftraining_operator.api.types import ObjectMeta, parse_spec
from tftraining_operator.core.job import Job

from tftraining.cli.convert.findings import RefusedError

_Map = Mapping[str, Any]

_SUFFIX = "xxxxx"
"""What the API server adds to generateName has this length."""


def part(raw: _Map, key: str, at: str = "") -> Any:  # noqa: ANN401 - a map, of ruamel or plain
    """Return the object in a field, empty if it has none. Raises RefusedError.

    `at` is the path of `raw`, with a dot at its end.
    """
    found = raw.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise RefusedError(f"{at}{key}", "must be an object")
    return found or {}


def require_objects(raw: _Map, key: str, at: str) -> None:
    """Raise RefusedError unless a field is a list of objects, or absent."""
    found = raw.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise RefusedError(f"{at}{key}", "must be a list of objects")


def checked(metadata: _Map, spec: _Map) -> Job:
    """Return a TFTrainingJob as the operator sees a new one. Raises RefusedError if it is invalid.

    Its name is an example if the API server generates it.
    """
    generated = f"{metadata['generateName']}{_SUFFIX}" if metadata.get("generateName") else None
    name = metadata.get("name") or generated
    if name is None:
        raise RefusedError("metadata.name", "is required")
    given = {"namespace": "default", **metadata, "name": name, "uid": ""}
    try:
        meta = ObjectMeta.model_validate(given)
    except ValidationError as error:
        problem = from_error(error, model=ObjectMeta, root="metadata")[0]
        raise RefusedError(problem.path, problem.message) from error
    try:
        parsed = parse_spec(dict(spec))
    except ValidationError as error:
        problem = from_error(error)[0]
        raise RefusedError(problem.path, problem.message) from error
    for broken in rules.problems(meta.name, parsed):
        raise RefusedError(broken.path, broken.message)
    return Job(meta=meta, spec=parsed, status=Status())
