"""A job under faults: what every story of faults does and asks."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.faults import Pod
from e2e.jobs import claim, tasks
from e2e.recording import Change, Recording
from e2e.scenarios.space import Space
from tools.cluster import ClusterError
from tools.waiting import eventually

_Object = dict[str, Any]

WANTED_ACCURACY = 0.95
"""Of an undisturbed run, less some noise."""

_START_SECONDS = 240
_BACK_SECONDS = 150
_END_SECONDS = 240
_COUNTED_SECONDS = 15
_SAVE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Drill:
    """One job of `e2e.jobs`, its faults, and all that was seen of it."""

    space: Space
    record: Recording
    job: str = "mnist"

    def start(self, job: _Object) -> None:
        """Apply the job and wait for its first steps and checkpoint."""
        self.space.apply(tasks(), claim(self.job), job)
        self.goes_on(_START_SECONDS)
        self.saves(1)

    def pod(self, role: str, index: int = 0) -> Pod:
        """Return one of the job's pods as the target of faults."""
        return Pod(self.space.cluster, self.space.name, f"{self.job}-{role}-{index}")

    def goes_on(self, seconds: float, since: float | None = None) -> None:
        """Wait until steps are made after a moment (now)."""
        with self._told():
            self.record.goes_on(self.job, seconds, since)

    def hit(self, pod: Pod, fault: Callable[[], None], seconds: float = _BACK_SECONDS) -> None:
        """Make a fault once the pod is ready; wait until it is back and steps are made."""
        with self._told():
            eventually(lambda: self._ready(pod), f"{pod.name} is ready", _START_SECONDS)
        before = self.incarnation(pod)
        fault()
        self.is_back(pod, before, seconds)
        self.goes_on(seconds)

    def is_back(self, pod: Pod, before: tuple[str, int], seconds: float = _BACK_SECONDS) -> None:
        """Wait until the pod is ready in another incarnation than before."""

        def is_other() -> bool:
            return self._ready(pod) and self.incarnation(pod) != before

        with self._told():
            eventually(is_other, f"{pod.name} is back", seconds)

    def incarnation(self, pod: Pod) -> tuple[str, int]:
        """Return what tells the pod's present process from its next one."""
        found = self.record.pod(pod.name)
        assert found is not None, f"there is no {pod.name}"
        return incarnation(found)

    def resumed(self, seconds: float, restarts: int) -> None:
        """Wait until steps are made and saved again; so many restarts are counted by then."""
        self.goes_on(seconds)
        self.saves(1)
        with self._told():
            eventually(
                lambda: self.space.status(self.job).get("restarts") == restarts,
                f"{restarts} restarts are counted",
                _COUNTED_SECONDS,
            )

    def saves(self, number: int) -> None:
        """Wait until so many more checkpoints are written."""
        before = self._checkpoints()
        with self._told():
            eventually(
                lambda: len(self._checkpoints() - before) >= number,
                f"{number} more checkpoints are written",
                _SAVE_SECONDS,
            )

    def hurry(self) -> None:
        """Have all who train wait no more before each batch."""
        who = f"tftraining.dev/job={self.job},tftraining.dev/role in (chief, worker)"
        for pod in self.space.kubectl("get", "pods", "-o", "name", "-l", who).split():
            self.space.kubectl("exec", pod, "--", "touch", "/tmp/hurry")  # noqa: S108

    def ends_well(self, *, restarts: int | None = None, unreadable: int = 0) -> _Object:
        """Have the job end; it is as good as an undisturbed one. Returns its status.

        So many checkpoints were made unreadable: the ones before them had to do.
        """
        self.hurry()
        with self._told():
            try:
                self.space.kubectl(
                    *("wait", "--for=condition=Finished", f"tftj/{self.job}"),
                    f"--timeout={_END_SECONDS}s",
                )
            except ClusterError as error:
                raise AssertionError(str(error)) from error
            status = self.space.status(self.job)
            assert status["state"] == "Succeeded", status["state"]
            conditions = {c["type"]: c["status"] for c in status["conditions"]}
            assert (conditions["Succeeded"], conditions["Failed"]) == ("True", "False")
            assert status["progress"]["step"] == status["progress"]["totalSteps"]
            if restarts is not None:
                assert status["restarts"] == restarts, f"{status['restarts']} restarts are counted"
            if "evaluation" in status:
                assert accuracy(status) >= WANTED_ACCURACY
                assert status["evaluation"]["step"] == status["progress"]["step"]
            older = [r for r in self.record.resumes(self.job) if r.start < r.last_checkpoint]
            assert len(older) <= unreadable, older
            assert not self.record.duplicates
            return status

    def ran_throughout(self, since: float) -> None:
        """The job was Running at every moment since."""
        seen = self.record.conditions(self.job, "Running", since)
        assert set(seen) <= {"True"}, seen

    def _ready(self, pod: Pod) -> bool:
        found = self.record.pod(pod.name)
        return found is not None and found.ready

    def _checkpoints(self) -> set[int]:
        samples = [*self.record.samples.get(self.job, [])]
        return {sample.checkpoint for sample in samples if sample.checkpoint is not None}

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell all that is known of the job with a failure."""
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.space.story(self.job)}") from error


def incarnation(pod: Change) -> tuple[str, int]:
    """Return uid and restarts in place."""
    return pod.uid, pod.restarts


def accuracy(status: _Object) -> float:
    """Return the evaluated accuracy."""
    found = {m["name"]: float(m["value"]) for m in status["evaluation"]["metrics"]}
    return found["accuracy"]


def now() -> float:
    """Return the moment, as recordings count it."""
    return time.monotonic()
