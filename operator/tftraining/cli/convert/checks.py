"""Whether a TFTrainingJob, made or given, is one that the API server accepts."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from tftraining_operator.api import rules
from tftraining_operator.api.problems import from_error
from tftraining_operator.api.types import Spec, parse_spec

from tftraining.cli.convert.findings import RefusedError

_Map = Mapping[str, Any]

_SUFFIX = "xxxxx"
"""What the API server adds to generateName has this length."""


def name_of(metadata: _Map) -> str:
    """Return a job's name, or one like those that are generated. Raises RefusedError."""
    generated = f"{metadata['generateName']}{_SUFFIX}" if metadata.get("generateName") else ""
    name = str(metadata.get("name") or generated)
    if not name:
        raise RefusedError("metadata.name", "is required")
    return name


def checked(metadata: _Map, spec: _Map) -> Spec:
    """Return the spec of a TFTrainingJob, parsed. Raises RefusedError for an invalid one."""
    name = name_of(metadata)
    try:
        parsed = parse_spec(dict(spec))
    except ValidationError as error:
        problem = from_error(error)[0]
        raise RefusedError(problem.path, problem.message) from error
    for broken in rules.problems(name, parsed):
        raise RefusedError(broken.path, broken.message)
    return parsed
