"""Turns a job's pods into processes for the kubelet: command, environment, folders.

`check` does so without any effect, so that what cannot run here is reported before anything starts.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tftraining_operator.api.keys import LABEL_ROLE, Role
from tftraining_operator.core.environment import CHECKPOINT_DIR, PROGRESS_PORT
from tftraining_operator.core.raw_pod import container_spec
from tftraining_operator.core.roles import traits

from tftraining.cli.local.addresses import choose_addresses
from tftraining.cli.local.commands import (
    Command,
    command,
    inherited_variables,
    is_probed,
)
from tftraining.cli.local.kubelet import Task
from tftraining.cli.local.volumes import Volume, mounts, populate, volumes
from tftraining.errors import InputError, TFTrainingError
from tftraining.manifest import Manifest

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one run."""

    python: str
    checkpoints: Path | None
    """Folder for the checkpoints; None where the job keeps none, or keeps them at a uri."""
    logs: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders for volumes that only a cluster has, by the volume's name."""


class Tasks:
    """The processes of one job's pods."""

    def __init__(self, manifest: Manifest, settings: Settings, scratch: Path) -> None:
        """Choose the job's addresses. Raises TFTrainingError.

        `scratch` is an empty folder that outlives the processes.
        """
        self._manifest = manifest
        self._settings = settings
        self._scratch = scratch
        self._addresses = choose_addresses(manifest.job)
        self._created = 0

    @property
    def progress_ports(self) -> dict[Role, int]:
        """The ports at which chief and evaluator serve /progress."""
        return self._addresses.progress

    def log_path(self, pod: str) -> Path:
        """Return the file that receives a pod's output."""
        return self._settings.logs / f"{pod}.log"

    def check(self, pod: _Object) -> None:
        """Check that a pod can run here. Raises InputError."""
        name = pod["metadata"]["name"]
        found, made = self._command(pod, self._scratch)
        needed = [volume.folder for volume in found.values() if not volume.is_created]
        needed += [made.folder] if made.folder is not None else []
        own = [folder for folder in (self._scratch, self._settings.checkpoints) if folder]
        for folder in needed:
            if not folder.is_dir() and not any(folder.is_relative_to(each) for each in own):
                raise InputError(f"{name}: folder {folder} does not exist")

    def create(self, pod: _Object) -> Task:
        """Create a pod's folders and return what to run. Raises InputError, TFTrainingError."""
        self._created += 1
        name = pod["metadata"]["name"]
        folder = self._scratch / f"{self._created}-{name}"
        found, made = self._command(pod, folder)
        try:
            folder.mkdir()
            for volume in found.values():
                populate(volume, mounts(container_spec(pod), found))
        except OSError as error:
            raise TFTrainingError(f"cannot start {name}: {error}") from error
        return Task(
            command=made,
            log=self.log_path(name),
            termination_log=folder / "termination-log",
            probed_port=self._addresses.cluster[name] if is_probed(pod) else None,
        )

    def _command(self, pod: _Object, folder: Path) -> tuple[dict[str, Volume], Command]:
        settings = self._settings
        try:
            found = volumes(
                pod,
                folder,
                self._manifest,
                checkpoints=settings.checkpoints,
                folders=settings.folders,
            )
            made = command(
                pod,
                self._manifest,
                python=settings.python,
                mounts=mounts(container_spec(pod), found),
                addresses=self._addresses.names,
                overrides={**settings.variables, **self._overrides(pod, folder)},
                # TensorFlow leaves files behind where it is not ended by Python itself.
                inherited={
                    **inherited_variables(os.environ, settings.python),
                    "TMPDIR": str(folder),
                },
            )
        except InputError as error:
            raise InputError(f"{pod['metadata']['name']}: {error}") from error
        return found, made

    def _overrides(self, pod: _Object, folder: Path) -> dict[str, str]:
        """Return the variables whose values differ from those in a cluster."""
        role = Role(pod["metadata"]["labels"][LABEL_ROLE])
        variables = {
            "HOSTNAME": pod["metadata"]["name"],
            "TFTRAINING_TERMINATION_LOG": str(folder / "termination-log"),
        }
        if (port := self._addresses.progress.get(role)) is not None:
            variables[PROGRESS_PORT] = str(port)
        mounts_checkpoint = traits(self._manifest.job.spec.strategy, role).mounts_checkpoint
        if self._settings.checkpoints is not None and mounts_checkpoint:
            variables[CHECKPOINT_DIR] = str(self._settings.checkpoints)
        return variables
