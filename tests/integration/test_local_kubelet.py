"""The kubelet of a local run with real processes, and the pass that drives it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tftraining.cli.local.commands import Command
from tftraining.cli.local.kubelet import Kubelet, Task
from tftraining.cli.local.run import LocalRun, Stop
from tftraining.cli.local.tasks import Settings
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.core import desired
from tftraining_operator.core.conditions import is_true
from tftraining_operator.reconcile.reconciler import Reconciler

from tests.unit.builders import IMAGE, a_job
from tests.unit.cli.plans import a_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tftraining_operator.core.events import Event
    from tftraining_operator.core.job import Job
    from tftraining_operator.reconcile.store import JobKey

NAME = "mnist-chief-0"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    found = Kubelet(lambda: datetime.now(UTC), tmp_path / "scratch")
    yield found
    found.kill()


def start(kubelet: Kubelet, folder: Path, script: str) -> Path:
    """Run a script as the chief's pod, once it has set its traps; return its log."""
    pod = desired.pod(a_job().build(), Role.CHIEF, 0, 0, IMAGE)
    log = folder / "log"
    command = Command(("sh", "-c", script), {"PATH": os.environ["PATH"]}, None)
    kubelet.create(pod, Task(command, log, folder / "termination-log", None))
    until(lambda: log.read_text() != "")
    return log


def until(wanted: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not wanted():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.01)


def gone(kubelet: Kubelet) -> bool:
    kubelet.tick()
    return kubelet.pod(NAME) is None


def test_a_pod_without_grace_is_gone_at_once(kubelet: Kubelet, tmp_path: Path) -> None:
    start(kubelet, tmp_path, STUBBORN)
    kubelet.delete(NAME, grace=0)
    assert kubelet.pod(NAME) is None
    assert not kubelet.runs(tuple(Role))


def test_a_second_deletion_shortens_the_grace(kubelet: Kubelet, tmp_path: Path) -> None:
    start(kubelet, tmp_path, STUBBORN)
    kubelet.delete(NAME, grace=600)
    pod = kubelet.pod(NAME)
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 600
    kubelet.delete(NAME, grace=1200)
    assert kubelet.pod(NAME) == pod
    kubelet.delete(NAME, grace=1)
    until(lambda: gone(kubelet))


def test_a_pod_ends_by_itself_within_its_grace(kubelet: Kubelet, tmp_path: Path) -> None:
    saves = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    log = start(kubelet, tmp_path, saves)
    kubelet.delete(NAME)
    until(lambda: gone(kubelet))
    assert log.read_text() == "up\nsaved\n"


def test_a_pod_that_has_ended_is_removed_without_grace(kubelet: Kubelet, tmp_path: Path) -> None:
    start(kubelet, tmp_path, "echo up")

    def ended() -> bool:
        kubelet.tick()
        pod = kubelet.pod(NAME)
        return pod is not None and pod["status"]["phase"] == "Succeeded"

    until(ended)
    kubelet.delete(NAME)
    assert kubelet.pod(NAME) is None


class Shown:
    """A display that keeps what it is shown."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def show_events(self, events: list[Event]) -> None:
        self.events += events

    def update(self, job: Job, examples_per_second: float | None) -> None:
        """Show nothing."""

    def show_stopping(self) -> None:
        """Show nothing."""


def test_processes_are_driven_by_the_passes_of_the_operators_reconciler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[JobKey] = []
    reconcile = Reconciler.__call__

    async def counted(self: Reconciler, key: JobKey) -> float | None:
        passes.append(key)
        return await reconcile(self, key)

    monkeypatch.setattr(Reconciler, "__call__", counted)
    job = a_job().mirrored().with_container(command=["sh", "-c", "echo done"], args=None)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings = Settings(python="python", checkpoints=None, logs=tmp_path)
    shown = Shown()
    done = LocalRun(a_manifest(job), settings, scratch).run(shown, lambda: Stop.NOT)
    assert is_true(done.status, ConditionType.SUCCEEDED)
    assert (tmp_path / f"{NAME}.log").read_text() == "done\n"
    assert set(passes) == {("default", "mnist")}
    # To create the process, and to see it end.
    assert len(passes) >= 2
    assert [event.reason for event in shown.events if event.reason == "Succeeded"] == ["Succeeded"]
