"""A local run without processes: the real API, loop and reconciler over a kubelet in memory."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tftraining.cli.local.api import LocalApi
from tftraining.cli.local.commands import Command
from tftraining.cli.local.kubelet import Task
from tftraining.cli.local.loop import ReconcileLoop
from tftraining_operator.reconcile.store import Store

from tests.unit.builders import PodBuilder, stamp
from tests.unit.fakes import Clock, FakeProgress, copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tftraining_operator.core.events import Event

    from tests.unit.builders import Raw

NO_TASK = Task(Command((), {}, None), Path(), Path(), None)


class FakeKubelet:
    """Pods whose fate a test decides."""

    def __init__(self) -> None:
        self.raw: dict[str, Raw] = {}

    def pods(self) -> list[Raw]:
        return [copied(raw) for raw in self.raw.values()]

    def pod(self, name: str) -> Raw | None:
        return copied(self.raw[name]) if name in self.raw else None

    def create(self, raw: Raw, _task: Task) -> None:
        self.raw[raw["metadata"]["name"]] = copied(raw) | {"status": {"phase": "Pending"}}

    def delete(self, name: str, grace: int | None = None) -> None:
        raw = self.raw[name]
        if raw["status"]["phase"] == "Running" and grace != 0:
            raw["metadata"] |= {"deletionTimestamp": stamp(30), "deletionGracePeriodSeconds": 30}
        else:
            del self.raw[name]

    def act(self, name: str, change: Callable[[PodBuilder], object]) -> None:
        change(PodBuilder(self.raw[name]))

    def run_pods(self) -> None:
        for name, raw in list(self.raw.items()):
            if "deletionTimestamp" in raw["metadata"]:
                del self.raw[name]
            elif raw["status"]["phase"] == "Pending":
                self.act(name, PodBuilder.running)


class FakeTasks:
    """Any pod can run here."""

    def check(self, pod: Raw) -> None:
        """Accept the pod."""

    def create(self, _pod: Raw) -> Task:
        return NO_TASK


class LocalWorld:
    """What LocalRun is made of, with a clock of its own."""

    def __init__(self, job: Raw) -> None:
        self.clock = Clock()
        self.store = Store()
        self.kubelet = FakeKubelet()
        self.progress = FakeProgress()
        self.events: list[Event] = []
        self.api = LocalApi(job, self.store, self.kubelet, FakeTasks(), self.clock)
        self.loop = ReconcileLoop(
            self.api, self.store, self.progress, self.events.extend, self.clock
        )

    @classmethod
    @contextmanager
    def of(cls, job: Raw) -> Iterator[Self]:
        world = cls(job)
        try:
            yield world
        finally:
            world.loop.close()

    def settle(self) -> None:
        """Do every pass that is due now."""
        for _ in range(50):
            changed = self.api.sync()
            if not changed and not self.loop.is_due:
                return
            self.loop.step(changed=changed)
        raise AssertionError("the loop does not come to rest")

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.tick(1)
            self.settle()
