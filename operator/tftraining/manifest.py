"""Parses a job and its ConfigMaps and Secrets from YAML, with the rules of the CRD.

What the API server would refuse is refused here, with the same message. Only `read` does I/O.
"""

import base64
import binascii
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from tftraining_operator.api import keys, rules
from tftraining_operator.api.problems import Problem, from_error
from tftraining_operator.api.status import Status
from tftraining_operator.api.types import ObjectMeta, Spec, parse_spec
from tftraining_operator.core.job import Job

from tftraining import yaml_values
from tftraining.errors import InputError

_Object = dict[str, Any]

Files = Mapping[str, bytes]
"""The contents of a ConfigMap or Secret by key."""

STDIN = "-"

_TFJOB = "TFJob"

_BYTE_ORDER_MARK = "\ufeff"

_KEY = re.compile(r"(?!\.\.|\.$)[-._A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One job, with the ConfigMaps and Secrets of the same file."""

    job: Job
    stored: _Object
    """The job's object as an API server would store it: with defaults, a uid and a generation."""
    config_maps: Mapping[str, Files] = field(default_factory=dict)
    secrets: Mapping[str, Files] = field(default_factory=dict)


def read(source: str) -> str:
    """Return the text of a file, or of standard input for `-`. Raises InputError."""
    if source == STDIN and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # whatever the terminal has
    try:
        text = sys.stdin.read() if source == STDIN else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise InputError(f"cannot read {source}: {reason}") from error
    # Editors on Windows write it; it would keep JSON from being read as that.
    return text.removeprefix(_BYTE_ORDER_MARK)


def parse(text: str, source: str, *, uid: str) -> Manifest:
    """Parse the documents of one file, of which one is a job. Raises InputError.

    `source` names the file in messages; `uid` becomes the job's, as an API server gives it one.
    """
    found = list(documents(text, source))
    raw = only_job(found, source)
    job = job_of(raw, source, uid)
    return Manifest(
        job=job,
        stored=_stored(raw, job),
        config_maps=_contents(found, "ConfigMap", source),
        secrets=_contents(found, "Secret", source),
    )


def documents(text: str, source: str) -> Iterator[_Object]:
    """Yield the objects of a file, those of a List one by one. Raises InputError."""
    found = json_of(text)
    for document in [found] if found is not None else _loaded(text, source):
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from _items(document, source)
        elif isinstance(document, dict):
            yield document
        elif document is not None:
            raise InputError(f"{source}: each document must be an object with kind and metadata")


def json_of(text: str) -> _Object | None:
    """Return the object that a text is in JSON, None if it is none; YAML does not take all JSON."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found: _Object = json.loads(text)
    except ValueError:
        return None
    return found


def _loaded(text: str, source: str) -> list[Any]:
    try:
        return list(yaml.load_all(text, Loader=yaml_values.Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark is not None else source
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"{where}: invalid YAML: {problem}") from error


def _items(document: _Object, source: str) -> list[_Object]:
    items = document.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError(f"{source}: items of a List must be a list of objects")
    return items


def only_job(found: Sequence[_Object], source: str) -> _Object:
    """Return the one job among some objects. Raises InputError."""
    jobs = [document for document in found if document.get("kind") == keys.KIND]
    if len(jobs) == 1:
        return jobs[0]
    if jobs:
        names = ", ".join(_name(job) for job in jobs)
        raise InputError(f"{source}: contains {len(jobs)} jobs ({names}); keep only one of them")
    kinds = [str(document.get("kind") or "an object without kind") for document in found]
    hint = f"; tftj convert {source} makes one of a TFJob" if _TFJOB in kinds else ""
    shown = ", ".join(kinds) or "nothing"
    raise InputError(f"{source}: contains no {keys.KIND} (found: {shown}){hint}")


def job_of(raw: _Object, source: str, uid: str) -> Job:
    """Return an object as a job. Raises InputError with all that the API server would refuse."""
    problems: list[Problem] = []
    if raw.get("apiVersion") != keys.API_VERSION:
        message = f"must be {keys.API_VERSION}, not {raw.get('apiVersion') or 'absent'}"
        problems.append(Problem("apiVersion", message))
    unknown = sorted(set(raw) - {"apiVersion", "kind", "metadata", "spec", "status"})
    problems += [Problem(name, "unknown field; does it belong in spec?") for name in unknown]
    meta = spec = None
    try:
        metadata = raw.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        meta = ObjectMeta.model_validate({"namespace": "default", **metadata, "uid": uid})
    except ValidationError as error:
        problems += from_error(error, model=ObjectMeta, root="metadata")
    try:
        spec = parse_spec(raw.get("spec") or {})
    except ValidationError as error:
        problems += from_error(error)
    if meta is not None and spec is not None:
        problems += [*rules.problems(meta.name, spec), *_without_quotes(spec)]
        if not problems:
            return Job(meta=meta, spec=spec, status=Status())
    raise InputError("\n".join(f"{source}: {problem}" for problem in problems))


def _without_quotes(spec: Spec) -> Iterator[Problem]:
    """Yield the values of templates that have to be text: a number there makes no pod."""
    templates = {"spec.template": spec.template}
    for role in keys.Role:
        if (given := spec.role(role)) is not None:
            templates[f"spec.{role}.template"] = given.template
    for path, template in templates.items():
        pod = (template.as_dict() if template is not None else {}).get("spec") or {}
        for kind in ("initContainers", "containers"):
            for at, container in enumerate(pod.get(kind) or []):
                for name, value in _texts(container):
                    if isinstance(value, bool | int | float):
                        message = f'must be a string: write "{json.dumps(value)}" in quotes'
                        yield Problem(f"{path}.spec.{kind}[{at}].{name}", message)


def _texts(container: _Object) -> Iterator[tuple[str, object]]:
    """Yield what has to be text in a container, by its field."""
    for field_name in ("command", "args", "env"):
        parts = container.get(field_name)
        for at, part in enumerate(parts if isinstance(parts, list) else ()):
            if field_name != "env":
                yield f"{field_name}[{at}]", part
            elif isinstance(part, dict):
                yield f"env[{at}].value", part.get("value")


def _stored(raw: _Object, job: Job) -> _Object:
    meta = job.meta.model_dump(by_alias=True)
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": {**raw["metadata"], **meta},
        "spec": job.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _contents(found: list[_Object], kind: str, source: str) -> dict[str, Files]:
    return {
        _name(document): _files(document, source)
        for document in found
        if document.get("kind") == kind
    }


def _files(document: _Object, source: str) -> Files:
    """Return the contents of a ConfigMap or Secret, decoded."""
    plain, coded = ("data", "binaryData")
    if document["kind"] == "Secret":
        plain, coded = ("stringData", "data")
    where = f"{source}: {document['kind']} {_name(document)}"
    for field_name in (plain, coded):
        if not isinstance(document.get(field_name) or {}, dict):
            raise InputError(f"{where}: {field_name} must be an object")
    files: dict[str, bytes] = {}
    for key, value in (document.get(coded) or {}).items():
        try:
            files[_key(key, f"{where}: {coded}")] = base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise InputError(f"{where}: {coded}.{key} must be base64") from error
    for key, value in (document.get(plain) or {}).items():
        if not isinstance(value, str):
            raise InputError(f"{where}: {plain}.{key} must be a string: put it in quotes")
        files[_key(key, f"{where}: {plain}")] = value.encode()
    return files


def _key(key: object, where: str) -> str:
    """Return a key, which becomes the name of a file. Raises InputError."""
    if not _KEY.fullmatch(str(key)):
        raise InputError(
            f"{where}: rename the key {str(key)!r}: it may have letters, digits, -, _ and . only,"
            " and must not begin with .."
        )
    return str(key)


def _name(document: _Object) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else "without a name"
