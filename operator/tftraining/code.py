"""Makes a job of a Python file or a folder: its code in a ConfigMap that all pods mount.

`read` does the I/O, `manifests` is pure.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tftraining_operator.api.keys import API_VERSION, CONTAINER, KIND
from tftraining_operator.api.rules import MAX_NAME
from tftraining_operator.api.types import Strategy

from tftraining.errors import InputError

_Object = dict[str, Any]

MOUNT = "/task"
_VOLUME = "task"
_TASK = "task.py"
_LIMIT = 1_000_000
"""Bytes of code: a ConfigMap can hold 1 MiB with its names."""
_MAX_FILES = 500
_IGNORED = frozenset({"__pycache__", "node_modules", "venv"})
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MANAGED_BY = {"app.kubernetes.io/managed-by": "tftj"}
"""Labels of the ConfigMap."""


@dataclass(frozen=True, slots=True)
class Code:
    """The files of a task."""

    files: Mapping[str, str]
    """Text by path relative to the folder, with / between its parts."""
    entry: str
    """The file with model() and dataset()."""
    name: str
    """What a job of it is called unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options of `tftj submit` say about a job that is made of code."""

    name: str | None = None
    strategy: Strategy = Strategy.PARAMETER_SERVER
    workers: int = 1
    ps: int = 1
    evaluator: bool = False
    claim: str | None = None
    image: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()


def read(source: Path, task: str | None) -> Code:
    """Read a Python file or a folder. Raises InputError."""
    if source.is_file():
        paths = {source.name: source}
    else:
        paths = {path.relative_to(source).as_posix(): path for path in _files(source)}
    if not paths:
        raise InputError(f"{source}: the folder contains no files")
    # Before they are read: there may be data of gigabytes among them.
    _check_size([path.stat().st_size for path in paths.values()], str(source))
    code = {name: _text(path) for name, path in paths.items()}
    entry = _entry(code, task, source)
    for path, text in code.items():
        if path.endswith(".py"):
            _check_syntax(path, text)
    return Code(code, entry, _job_name(source))


def of_text(text: str, name: str) -> Code:
    """Return a task of one file, which functions of a notebook became. Raises InputError."""
    _check_size([len(text.encode())], "functions")
    return Code({_TASK: text}, _TASK, name)


def manifests(code: Code, wanted: Wanted) -> tuple[_Object, _Object]:
    """Return the ConfigMap and the job. Raises InputError."""
    _check_roles(wanted)
    name = wanted.name or code.name
    config_map = f"{name}-code"
    items = _items(code.files)
    container: _Object = {
        "name": CONTAINER,
        "args": [f"--task={MOUNT}/{code.entry}", *wanted.arguments],
        "volumeMounts": [{"name": _VOLUME, "mountPath": MOUNT, "readOnly": True}],
    }
    if wanted.image:
        container["image"] = wanted.image
    if wanted.variables:
        given = wanted.variables.items()
        container["env"] = [{"name": key, "value": value} for key, value in given]
    volume = {
        "name": _VOLUME,
        "configMap": {
            "name": config_map,
            "items": [{"key": key, "path": path} for key, path in items.items()],
        },
    }
    spec: _Object = {"template": {"spec": {"containers": [container], "volumes": [volume]}}}
    if wanted.strategy is not Strategy.PARAMETER_SERVER:
        spec = {"strategy": wanted.strategy.value, **spec}
    if wanted.strategy is not Strategy.MIRRORED:
        spec["worker"] = {"replicas": wanted.workers}
    if wanted.strategy is Strategy.PARAMETER_SERVER:
        spec["ps"] = {"replicas": wanted.ps}
    if wanted.evaluator:
        spec["evaluator"] = {}
    if wanted.claim:
        spec["checkpoint"] = {"persistentVolumeClaim": {"claimName": wanted.claim}}
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": config_map, "labels": dict(_MANAGED_BY)},
            "data": {key: code.files[path] for key, path in items.items()},
        },
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec},
    )


def is_own(config_map: _Object) -> bool:
    """Tell whether tftj made a ConfigMap: those of earlier versions have no label."""
    metadata = config_map["metadata"]
    managers = {each.get("manager") for each in metadata.get("managedFields") or []}
    labels = metadata.get("labels") or {}
    return "tftj" in managers or _MANAGED_BY.items() <= labels.items()


def _check_roles(wanted: Wanted) -> None:
    """Refuse roles that the job cannot have, in terms of the options."""
    if wanted.strategy is Strategy.MIRRORED and wanted.workers > 1:
        raise InputError(
            "--workers: strategy Mirrored trains in the chief alone: omit it, or choose strategy"
            " MultiWorkerMirrored"
        )
    if wanted.strategy is not Strategy.PARAMETER_SERVER and wanted.ps > 1:
        raise InputError("--ps: only strategy ParameterServer has parameter servers: omit it")
    if wanted.evaluator and not wanted.claim:
        raise InputError(
            "--evaluator: it reads the chief's checkpoints: name a claim for them (--checkpoint,"
            " checkpoint=…)"
        )


def _items(files: Mapping[str, str]) -> dict[str, str]:
    """Return the paths by their keys, which have no slash."""
    items: dict[str, str] = {}
    for path in sorted(files):
        key = path.replace("/", "__")
        if not _KEY.fullmatch(key) or key.startswith(".."):
            raise InputError(f"{path}: the name of a file can have letters, digits, - _ and . only")
        if key in items:
            raise InputError(f"{path} and {items[key]}: rename one of them; both would be {key}")
        items[key] = path
    return items


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(
            part.startswith(".") or part in _IGNORED for part in path.relative_to(folder).parts
        )
    ]


def _text(path: Path) -> str:
    try:
        # Python takes a byte order mark, which the parser of source in a string does not.
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not text in UTF-8: save code as UTF-8, and put data on a volume, not into the"
            " folder"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _check_size(sizes: Sequence[int], source: str) -> None:
    size = sum(sizes)
    if size > _LIMIT or len(sizes) > _MAX_FILES:
        raise InputError(
            f"{source}: {len(sizes)} files of {size} bytes do not fit into a ConfigMap (1 MB):"
            " submit code only, and put data on a volume or the code into an image"
        )


def _entry(code: Mapping[str, str], task: str | None, source: Path) -> str:
    modules = [path for path in code if path.endswith(".py")]
    if task is not None:
        if task not in code:
            raise InputError(f"--task: {source} has no file {task}")
        return task
    if _TASK in modules:
        return _TASK
    top = [path for path in modules if len(PurePosixPath(path).parts) == 1]
    if len(top) != 1:
        choice = ", ".join(top) or "none at its top"
        raise InputError(
            f"{source}: which file has model() and dataset()? Name it with --task (Python files:"
            f" {choice})"
        )
    return top[0]


def _check_syntax(path: str, text: str) -> None:
    try:
        ast.parse(text, path)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno is not None else ""
        raise InputError(f"{path}{line}: {error.msg}") from error


def _job_name(source: Path) -> str:
    """Return a name for the job that the API server takes."""
    path = source.resolve()
    given = path.name if path.is_dir() else path.stem
    words = re.sub(r"[^a-z0-9]+", "-", given.lower()).strip("-")
    name = words if words[:1].isalpha() else f"job-{words}"
    return name[:MAX_NAME].strip("-")
