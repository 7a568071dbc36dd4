"""From a pod to the command that is run in its place. Pure.

What a cluster resolves by name is rewritten: addresses of tasks, and paths below a mount.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.cli.errors import InputError
from tftraining_operator.cli.local.variables import environment, expand
from tftraining_operator.cli.local.volumes import Mount
from tftraining_operator.cli.manifest import Manifest

_Object = dict[str, Any]

TRAINER_IMAGE = "tftrainer of this computer"
"""What a pod has for an image where the user named none."""

_TRAINER = ("-m", "tftrainer")
_OF_A_JOB = ("TFTRAINING_", "TF_CONFIG")
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
    """Where it starts; None for where tftj was started."""


def container(pod: _Object) -> _Object:
    """Return the container that trains."""
    found: _Object = next(c for c in pod["spec"]["containers"] if c["name"] == keys.CONTAINER)
    return found


def command(
    pod: _Object,
    manifest: Manifest,
    *,
    python: str,
    mounts: Sequence[Mount],
    addresses: Mapping[str, str],
    given: Mapping[str, str],
    around: Mapping[str, str],
) -> Command:
    """Return the command of a pod's training container. Raises InputError.

    `addresses` are what to write for each task's address; the variables of `given` win over the
    pod's, and these over those `around` it.
    """
    training = container(pod)
    variables = environment(training, pod, manifest, given)

    def here(text: str) -> str:
        return _localised(text, addresses, mounts)

    program = _strings(training, "command") or (python, *_TRAINER)
    argv = (*program, *_strings(training, "args"))
    folder = training.get("workingDir")
    return Command(
        argv=tuple(here(expand(part, variables)) for part in argv),
        variables={**around, **{name: here(value) for name, value in variables.items()}},
        folder=Path(here(folder)) if folder else None,
    )


def surroundings(variables: Mapping[str, str], python: str) -> dict[str, str]:
    """Return what a task inherits of this computer's variables.

    None of another job's; `python` in a command is the Python that was chosen.
    """
    kept = {k: v for k, v in variables.items() if not k.startswith(_OF_A_JOB)}
    path = os.pathsep.join(filter(None, (str(Path(python).parent), kept.get("PATH"))))
    return {**_AS_THE_IMAGE, **kept, "PATH": path}


def runs_trainer(pod: _Object) -> bool:
    """Tell whether the pod runs our trainer, as the image does when no command is given."""
    return not container(pod).get("command")


def is_probed(pod: _Object) -> bool:
    """Tell whether an open cluster port makes the pod ready; probes of the user's are not run."""
    probe = (container(pod).get("readinessProbe") or {}).get("tcpSocket") or {}
    return probe.get("port") == keys.CLUSTER_PORT


def left_aside(pods: Sequence[_Object]) -> list[str]:
    """Say what of the pods has no meaning on this computer, each once."""
    trained = [container(pod) for pod in pods]
    said = []
    images = sorted({c["image"] for c in trained if c.get("image") != TRAINER_IMAGE})
    if images:
        said.append(f"image {', '.join(images)} (the Python of this computer runs instead)")
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
        said.append(f"containers beside `{keys.CONTAINER}`: {', '.join(others)}")
    if any(c.get("resources") for c in trained):
        said.append("resources")
    return said


def _localised(text: str, addresses: Mapping[str, str], mounts: Sequence[Mount]) -> str:
    for name, local in addresses.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?!\d)", local, text)
    # In one go, so that a folder that was put in is not taken for another mount.
    folders = {mount.path: str(mount.folder) for mount in mounts}
    if not folders:
        return text
    paths = "|".join(re.escape(path) for path in folders)
    return re.sub(rf"(?<![\w./-])({paths})(?![\w.-])", lambda found: folders[found[1]], text)


def _strings(training: _Object, field: str) -> tuple[str, ...]:
    given = training.get(field) or []
    if not isinstance(given, list):
        raise InputError(f"{field} of container {keys.CONTAINER}: must be a list of strings")
    for index, part in enumerate(given):
        if not isinstance(part, str):
            raise InputError(
                f'{field}[{index}] of container {keys.CONTAINER}: must be a string: write "{part}"'
                " in quotes"
            )
    return tuple(given)
