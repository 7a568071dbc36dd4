"""One local run: the operator's passes over one job, with this computer in place of a cluster."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol

from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.core import desired
from tftraining_operator.core.conditions import find, is_finished
from tftraining_operator.core.events import Event
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import slots
from tftraining_operator.core.podtemplate import (
    CHECKPOINT_VOLUME,
    SCRATCH_VOLUME,
    InvalidTemplateError,
)
from tftraining_operator.core.progress import progress_of
from tftraining_operator.reconcile.store import Store

from tftraining.cli.local.api import LocalApi
from tftraining.cli.local.commands import TRAINER_IMAGE
from tftraining.cli.local.kubelet import Kubelet
from tftraining.cli.local.loop import ReconcileLoop
from tftraining.cli.local.reports import LocalReports
from tftraining.cli.local.tasks import Settings, Tasks
from tftraining.errors import InputError
from tftraining.manifest import Manifest

_Object = dict[str, Any]

_IGNORED_PARTS = ("scheduling", "network", "disruption")
"""Parts of a spec that mean nothing here: there are no nodes and no network between them."""

_TICK_SECONDS = 0.1


class Stop(IntEnum):
    """How urgently the user wants the run to end."""

    NOT = 0
    SAVE = 1
    """The chief gets its grace period to save a checkpoint."""
    NOW = 2


class Display(Protocol):
    """Shows the run to a person; see display.Display."""

    def show_events(self, events: list[Event]) -> None: ...  # noqa: D102
    def update(self, job: Job, examples_per_second: float | None) -> None: ...  # noqa: D102
    def show_stopping(self) -> None: ...  # noqa: D102


class LocalRun:
    """A job, from its first process to its end."""

    def __init__(self, manifest: Manifest, settings: Settings, scratch: Path) -> None:
        """Check the whole job before anything is started. Raises InputError, TFTrainingError.

        `scratch` is an empty folder that outlives the run's processes.
        """
        self.job = manifest.job
        self.ignored_parts = _ignored_parts(manifest.stored["spec"])
        """Names of the parts of its spec that are ignored."""
        spec = {k: v for k, v in manifest.stored["spec"].items() if k not in self.ignored_parts}
        metadata = dict(manifest.stored["metadata"])
        labels = metadata.pop("labels", None) or {}
        metadata["labels"] = {k: v for k, v in labels.items() if k != keys.LABEL_QUEUE}
        self._stored = {**manifest.stored, "metadata": metadata, "spec": spec}
        self._scratch = scratch
        self._tasks = Tasks(manifest, settings, scratch)
        self.pods = _first_pods(manifest.job)
        _check_folders(self.pods, settings.folders)
        for pod in self.pods:
            self._tasks.check(pod)

    def log_path(self, pod: str) -> Path:
        """Return the file that receives a pod's output."""
        return self._tasks.log_path(pod)

    def run(self, display: Display, stop: Callable[[], Stop]) -> Job:
        """Run to the job's end, or until asked to stop; no process is left. Returns the job.

        Raises InputError if the job is not accepted, TFTrainingError if a process cannot be
        started.
        """
        kubelet, store = Kubelet(_now, self._scratch), Store()
        reports = LocalReports(self._tasks.progress_ports, _now)
        api = LocalApi(self._stored, store, kubelet, self._tasks, _now)
        loop = ReconcileLoop(api, store, reports, display.show_events, _now)
        job = self.job

        def update() -> None:
            display.update(_with_newest_progress(job, reports, api), reports.examples_per_second())

        try:
            while not is_finished(job.status) and stop() is Stop.NOT:
                kubelet.tick()
                changed = api.sync()
                loop.step(changed=reports.take_changed() or changed)
                job = replace(job, status=loop.status)
                _raise_if_rejected(job)
                update()
                if not loop.is_due:
                    time.sleep(_TICK_SECONDS)
            if not is_finished(job.status):
                display.show_stopping()
            _stop(kubelet, stop, update)
        finally:
            kubelet.kill()
            loop.close()
            reports.close()
        return job


def _ignored_parts(spec: _Object) -> list[str]:
    # There is no other cluster to give the job to, either.
    dispatched = spec.get("managedBy") == keys.MULTIKUEUE
    found = [part for part in _IGNORED_PARTS if part in spec]
    return [*found, "managedBy"] if dispatched else found


def _first_pods(job: Job) -> list[_Object]:
    """Return the pods of the first attempt. Raises InputError."""
    try:
        pods = [desired.pod(job, role, index, 0, TRAINER_IMAGE) for role, index, _ in slots(job)]
    except InvalidTemplateError as error:
        raise InputError(str(error)) from error
    for number, pod in enumerate(pods):
        # Variables may refer to it.
        pod["metadata"]["uid"] = f"{job.uid}-{number}"
    return pods


def _check_folders(pods: Sequence[_Object], folders: Mapping[str, Path]) -> None:
    """Raise InputError for a folder of a volume that no pod has."""
    names = {str(v.get("name")) for pod in pods for v in pod["spec"].get("volumes") or []}
    names -= {CHECKPOINT_VOLUME, SCRATCH_VOLUME}
    for name in folders:
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise InputError(f"--volume: the job has no volume {name}; it has {known}")


def _raise_if_rejected(job: Job) -> None:
    # A cluster waits for a corrected manifest; here the user runs the command again.
    accepted = find(job.status.conditions, ConditionType.ACCEPTED)
    if accepted is not None and accepted.status == "False":
        raise InputError(f"{accepted.reason}: {accepted.message}")


def _with_newest_progress(job: Job, reports: LocalReports, api: LocalApi) -> Job:
    """Return the job with its newest progress, which the status has only every few seconds."""
    report = reports.reports(api.key).get(Role.CHIEF)
    if report is None or is_finished(job.status) or not report.has_steps:
        return job
    progress = progress_of(report, job.status.progress, _now())
    return replace(job, status=job.status.model_copy(update={"progress": progress}))


def _stop(kubelet: Kubelet, stop: Callable[[], Stop], update: Callable[[], None]) -> None:
    """Let the chief end first, as it may save, then all others."""
    for roles in ((Role.CHIEF,), tuple(Role)):
        kubelet.end(roles)
        while kubelet.runs(roles) and stop() is not Stop.NOW:
            kubelet.tick()
            update()
            time.sleep(_TICK_SECONDS)


def _now() -> datetime:
    return datetime.now(UTC)
