"""A file with a job, and the commands that its pods become."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from tftraining import manifest
from tftraining.cli.local.addresses import HOST, Addresses
from tftraining.cli.local.commands import TRAINER_IMAGE, Command, command
from tftraining.cli.local.volumes import mounts, volumes
from tftraining_operator.core import desired
from tftraining_operator.core.naming import address
from tftraining_operator.core.observed import slots
from tftraining_operator.core.raw_pod import container_spec
from tftraining_operator.core.roles import traits

if TYPE_CHECKING:
    from tests.unit.builders import JobBuilder

Raw = dict[str, Any]

CHECKPOINTS = Path("/home/me/mnist-checkpoints")
PYTHON = "/venv/bin/python"


def a_file(job: JobBuilder, *others: Raw) -> str:
    """The YAML of a job and of what comes with it."""
    raw = {**job.raw, "metadata": {"name": job.raw["metadata"]["name"]}}
    return yaml.safe_dump_all([*others, raw])


def a_manifest(job: JobBuilder, *others: Raw) -> manifest.Manifest:
    return manifest.parse(a_file(job, *others), "job.yaml", uid="uid-1")


def fixed_addresses(found: manifest.Manifest) -> Addresses:
    """Ports from 20000, in the order in which pods are created."""
    tasks = list(slots(found.job))
    ports = {name: 20_000 + number for number, (_, _, name) in enumerate(tasks)}
    reporting = [r for r, _, _ in tasks if traits(found.job.spec.strategy, r).reports_progress]
    namespace = found.job.namespace
    return Addresses(
        cluster=ports,
        progress={role: 21_000 + number for number, role in enumerate(reporting)},
        names={
            address(found.job.name, namespace, role, i): f"{HOST}:{ports[name]}"
            for role, i, name in tasks
        },
    )


def plan(
    found: manifest.Manifest, *, overrides: dict[str, str] | None = None, **folders: Path
) -> dict[str, Command]:
    """The command of each pod, by the pod's name."""
    known = fixed_addresses(found)
    made = {}
    for role, index, name in slots(found.job):
        pod = desired.pod(found.job, role, index, 0, TRAINER_IMAGE)
        laid = volumes(
            pod, Path("/scratch") / name, found, checkpoints=CHECKPOINTS, folders=folders
        )
        made[name] = command(
            pod,
            found,
            python=PYTHON,
            mounts=mounts(container_spec(pod), laid),
            addresses=known.names,
            overrides=overrides or {},
            inherited={},
        )
    return made
