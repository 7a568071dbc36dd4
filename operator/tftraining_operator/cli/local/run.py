"""One local run: the operator's pass over one job, with this computer in the cluster's place."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol

from tftraining_operator.api.keys import LABEL_ROLE, Role
from tftraining_operator.cli.errors import CommandError, InputError
from tftraining_operator.cli.local import commands
from tftraining_operator.cli.local.addresses import choose_addresses
from tftraining_operator.cli.local.commands import (
    TRAINER_IMAGE,
    Command,
    command,
    container,
    is_probed,
)
from tftraining_operator.cli.local.kubelet import Kubelet, Task
from tftraining_operator.cli.local.reports import Reports, Target
from tftraining_operator.cli.local.volumes import Volume, lay_out, mounts, volumes
from tftraining_operator.cli.manifest import Manifest
from tftraining_operator.core import desired
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.decision import decide
from tftraining_operator.core.events import Actions, Event, events_of
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, observe, slots
from tftraining_operator.core.plan import Plan, make_plan
from tftraining_operator.core.podtemplate import InvalidTemplateError
from tftraining_operator.core.roles import traits
from tftraining_operator.core.status import compute_status

_Object = dict[str, Any]

_TICK_SECONDS = 0.1


class Stop(IntEnum):
    """How urgently the user wants the run to end."""

    NOT = 0
    SAVE = 1
    """The chief gets its grace to save a checkpoint."""
    NOW = 2


class Display(Protocol):
    """Who shows the run to a person."""

    def tell(self, events: list[Event]) -> None:
        """Show what has happened."""

    def update(self, job: Job, examples_per_second: float | None) -> None:
        """Show how far the job is; called at every tick."""

    def ending(self) -> None:
        """Say that the chief saves, and how not to wait for it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose for this run."""

    python: str
    checkpoints: Path | None
    """Folder for the checkpoints; None where the job keeps none, or keeps them at a uri."""
    logs: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders for volumes that only a cluster has, by the volume's name."""


class LocalRun:
    """A job, from its first process to its end."""

    def __init__(self, manifest: Manifest, settings: Settings, scratch: Path) -> None:
        """Judge the whole job before anything is started. Raises InputError.

        `scratch` is an empty folder that outlives the run's processes.
        """
        self.job = manifest.job
        self._manifest = manifest
        self._settings = settings
        self._scratch = scratch
        self._addresses = choose_addresses(self.job)
        self._services: list[_Object] = []
        self._started = 0
        self.pods = self._first_pods()
        for pod in self.pods:
            self._check(pod)
        self._kubelet = Kubelet(_now)
        self._reports = Reports(_now)

    def log_of(self, pod: str) -> Path:
        """Return where a pod's output goes."""
        return self._settings.logs / f"{pod}.log"

    def run(self, display: Display, stop: Callable[[], Stop]) -> Job:
        """Run to the job's end, or until asked to stop; no process is left. Returns the job."""
        try:
            while not is_finished(self.job.status) and stop() is Stop.NOT:
                display.tell(self._pass())
                display.update(self.job, self._reports.examples_per_second())
                time.sleep(_TICK_SECONDS)
            if not is_finished(self.job.status):
                display.ending()
            self._end(stop, lambda: display.update(self.job, None))
        finally:
            self._kubelet.kill()
        return self.job

    def _first_pods(self) -> list[_Object]:
        try:
            return [
                desired.pod(self.job, role, index, 0, TRAINER_IMAGE)
                for role, index, _ in slots(self.job)
            ]
        except InvalidTemplateError as error:
            raise InputError(str(error)) from error

    def _check(self, pod: _Object) -> None:
        name = pod["metadata"]["name"]
        try:
            found, made = self._command(pod, self._scratch)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        needed = [each.folder for each in found.values() if not each.is_ours]
        needed += [made.folder] if made.folder is not None else []
        own = [folder for folder in (self._scratch, self._settings.checkpoints) if folder]
        for folder in needed:
            if not folder.is_dir() and not any(folder.is_relative_to(each) for each in own):
                raise InputError(f"{name}: there is no folder {folder}")

    def _pass(self) -> list[Event]:
        """Do what the operator's pass does; the status is stored in memory."""
        self._kubelet.tick()
        now = _now()
        job, observed = self.job, self._observe()
        self._watch(observed)
        facts = Facts(reports=self._reports.newest())
        decision = decide(job, observed, facts, now)
        plan = make_plan(job, observed, decision, TRAINER_IMAGE)
        actions = self._apply(plan)
        observed = self._observe()
        status = compute_status(job, observed, decision, facts, now, trainer_image=TRAINER_IMAGE)
        self.job = replace(job, status=status)
        return events_of(job.status, status, actions, now)

    def _apply(self, plan: Plan) -> Actions:
        for removal in plan.removals:
            self._kubelet.delete(removal.pod.name, removal.grace)
        if plan.service is not None:
            self._services.append(plan.service)
        for raw in plan.pods:
            self._create(raw)
        return Actions(
            created=[raw["metadata"]["name"] for raw in plan.pods],
            created_service=False,
            replaced={r.pod.name: r.cause for r in plan.removals if r.is_replacement},
        )

    def _create(self, raw: _Object) -> None:
        self._started += 1
        name = raw["metadata"]["name"]
        folder = self._scratch / f"{self._started}-{name}"
        found, made = self._command(raw, folder)
        raw["metadata"]["uid"] = f"{self.job.uid}-{self._started}"
        try:
            folder.mkdir()
            for volume in found.values():
                lay_out(volume)
            task = Task(
                command=made,
                log=self.log_of(name),
                termination_log=folder / "termination-log",
                probed_port=self._addresses.cluster[name] if is_probed(raw) else None,
            )
            self._kubelet.create(raw, task)
        except OSError as error:
            raise CommandError(f"{name} cannot be started: {error}") from error

    def _command(self, pod: _Object, folder: Path) -> tuple[dict[str, Volume], Command]:
        settings, name = self._settings, pod["metadata"]["name"]
        found = volumes(
            pod,
            folder,
            self._manifest,
            checkpoints=settings.checkpoints,
            given=settings.folders,
        )
        made = command(
            pod,
            self._manifest,
            python=settings.python,
            mounts=mounts(container(pod), found),
            addresses=self._addresses.names,
            given={**settings.variables, **self._told(pod, name, folder)},
            around=commands.surroundings(os.environ, settings.python),
        )
        return found, made

    def _told(self, pod: _Object, name: str, folder: Path) -> dict[str, str]:
        """Return the variables that have another value here than in a cluster."""
        told = {
            "HOSTNAME": name,
            "TFTRAINING_TERMINATION_LOG": str(folder / "termination-log"),
        }
        if (port := self._addresses.progress.get(name)) is not None:
            told["TFTRAINING_PROGRESS_PORT"] = str(port)
        role = Role(pod["metadata"]["labels"][LABEL_ROLE])
        if (
            self._settings.checkpoints is not None
            and traits(self.job.spec.strategy, role).mounts_checkpoint
        ):
            told["TFTRAINING_CHECKPOINT_DIR"] = str(self._settings.checkpoints)
        return told

    def _observe(self) -> Observed:
        return observe(self.job, self._kubelet.pods(), self._services, _now())

    def _watch(self, observed: Observed) -> None:
        self._reports.watch(
            {
                pod.role: Target(pod.uid, self._addresses.progress[pod.name])
                for pod in observed.pods.values()
                if pod.name in self._addresses.progress and pod.phase == "Running"
            }
        )

    def _end(self, stop: Callable[[], Stop], shown: Callable[[], None]) -> None:
        """Let the chief end first, as it may save, then all others."""
        for roles in ((Role.CHIEF,), tuple(Role)):
            self._kubelet.end(roles)
            while self._kubelet.runs(roles) and stop() is not Stop.NOW:
                self._kubelet.tick()
                shown()
                time.sleep(_TICK_SECONDS)


def _now() -> datetime:
    return datetime.now(UTC)
