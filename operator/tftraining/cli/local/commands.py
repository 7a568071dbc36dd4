"""Turns a pod into the command that runs in its place. Pure.

Addresses of tasks and paths below a mount are replaced by those of this computer.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.core.environment import PREFIX, TF_CONFIG
from tftraining_operator.core.raw_pod import container_spec

from tftraining.cli.local.variables import environment, expand
from tftraining.cli.local.volumes import Mount
from tftraining.errors import InputError
from tftraining.manifest import Manifest

_Object = dict[str, Any]

TRAINER_IMAGE = "tftrainer of this computer"
"""The image of a pod where the user sets none."""

_TRAINER = ("-m", "tftrainer")
_OF_A_JOB = (PREFIX, TF_CONFIG)
# Several processes would share a GPU, and each takes all of its memory.
_AS_THE_IMAGE = {
    "PYTHONUNBUFFERED": "1",
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
}


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    """Its whole environment."""
    folder: Path | None
    """Its working directory; None for that of tftj."""


def command(
    pod: _Object,
    manifest: Manifest,
    *,
    python: str,
    mounts: Sequence[Mount],
    addresses: Mapping[str, str],
    overrides: Mapping[str, str],
    inherited: Mapping[str, str],
) -> Command:
    """Return the command of a pod's training container. Raises InputError.

    `addresses` maps each task's address to the local one. `overrides` take precedence over the
    pod's variables, and these over the `inherited` ones. Only what the pod says is rewritten.
    """
    training = container_spec(pod)
    # The overrides are put in last: their paths are those of this computer already. The mark of
    # one begins and ends as its value does, which decides whether a path beside it is rewritten.
    marks = {name: f"{value[:1]}\0{name}\0{value[-1:]}" for name, value in overrides.items()}
    variables = environment(training, pod, manifest, marks)

    def local(text: str) -> str:
        text = _localize(text, addresses, mounts)
        for name, mark in marks.items():
            text = text.replace(mark, overrides[name])
        return text

    def localized(field: str) -> tuple[str, ...]:
        return tuple(local(expand(part, variables)) for part in _strings(training, field))

    program = localized("command") or (python, *_TRAINER)
    folder = training.get("workingDir")
    return Command(
        argv=(*program, *localized("args")),
        variables={**inherited, **{name: local(value) for name, value in variables.items()}},
        folder=Path(local(folder)) if folder else None,
    )


def inherited_variables(variables: Mapping[str, str], python: str) -> dict[str, str]:
    """Return the variables of this computer that a task inherits.

    Variables of another job are left out; `python` in a command is the chosen Python.
    """
    kept = {k: v for k, v in variables.items() if not k.startswith(_OF_A_JOB)}
    path = os.pathsep.join(filter(None, (str(Path(python).parent), kept.get("PATH"))))
    return {**_AS_THE_IMAGE, **kept, "PATH": path}


def is_probed(pod: _Object) -> bool:
    """Return whether an open cluster port makes the pod ready; the user's own probes never run."""
    probe = (container_spec(pod).get("readinessProbe") or {}).get("tcpSocket") or {}
    return probe.get("port") == keys.CLUSTER_PORT


def ignored_features(pods: Sequence[_Object]) -> list[str]:
    """Describe what a local run ignores of the pods, each feature once."""
    trained = [container_spec(pod) for pod in pods]
    ignored = []
    images = sorted({c["image"] for c in trained if c.get("image") != TRAINER_IMAGE})
    if images:
        ignored.append(f"image {', '.join(images)} (the local Python runs instead)")
    others = sorted(
        {
            str(each.get("name"))
            for pod in pods
            for field in ("initContainers", "containers")
            for each in pod["spec"].get(field) or []
            if each.get("name") != keys.CONTAINER
        }
    )
    if others:
        ignored.append(f"containers other than `{keys.CONTAINER}`: {', '.join(others)}")
    if any(c.get("resources") for c in trained):
        ignored.append("resources")
    return ignored


def _localize(text: str, addresses: Mapping[str, str], mounts: Sequence[Mount]) -> str:
    for name, local in addresses.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?!\d)", local, text)
    # In a single pass, so that an inserted folder is not matched as another mount.
    folders = {mount.path: str(mount.folder) for mount in mounts}
    if not folders:
        return text
    paths = "|".join(re.escape(path) for path in folders)
    return re.sub(rf"(?<![\w./-])({paths})(?![\w.-])", lambda found: folders[found[1]], text)


def _strings(training: _Object, field: str) -> tuple[str, ...]:
    parts = training.get(field) or []
    if not isinstance(parts, list):
        raise InputError(f"{field} of container {keys.CONTAINER}: must be a list of strings")
    for index, part in enumerate(parts):
        if not isinstance(part, str):
            raise InputError(
                f'{field}[{index}] of container {keys.CONTAINER}: must be a string: write "{part}"'
                " in quotes"
            )
    return tuple(parts)
