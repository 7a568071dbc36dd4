"""A job under faults: what the scenarios and chaos do to it, wait for and expect of it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.faults import Pod
from e2e.jobs import claim, tasks
from e2e.recording import Change, Recording
from e2e.scenarios.space import Space
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
        self.wait_for_steps(_START_SECONDS)
        self.wait_for_checkpoints(1)

    def pod(self, role: str, index: int = 0) -> Pod:
        """Return one of the job's pods as the target of faults."""
        return Pod(self.space.cluster, self.space.name, f"{self.job}-{role}-{index}")

    def wait_for_steps(self, seconds: float, since: float | None = None) -> None:
        """Wait until steps are made after a moment (now)."""
        with self._described():
            self.record.wait_for_steps(self.job, seconds, since)

    def inject(self, pod: Pod, fault: Callable[[], None], seconds: float = _BACK_SECONDS) -> None:
        """Make a fault once the pod is ready; wait until it is back and steps are made."""
        with self._described():
            eventually(lambda: self._ready(pod), f"{pod.name} is ready", _START_SECONDS)
        before = self.incarnation(pod)
        fault()
        self.wait_until_back(pod, before, seconds)
        self.wait_for_steps(seconds)

    def wait_until_back(
        self, pod: Pod, before: tuple[str, int], seconds: float = _BACK_SECONDS
    ) -> None:
        """Wait until the pod is ready in another incarnation than before."""

        def is_other() -> bool:
            return self._ready(pod) and self.incarnation(pod) != before

        with self._described():
            eventually(is_other, f"{pod.name} is back", seconds)

    def incarnation(self, pod: Pod) -> tuple[str, int]:
        """Return what distinguishes the pod's present process from its next one."""
        found = self.record.pod(pod.name)
        assert found is not None, f"there is no {pod.name}"
        return incarnation(found)

    def wait_until_resumed(self, seconds: float, restarts: int) -> None:
        """Wait until steps are made and saved again; so many restarts are counted by then."""
        self.wait_for_steps(seconds)
        self.wait_for_checkpoints(1)
        with self._described():
            eventually(
                lambda: self.space.status(self.job).get("restarts") == restarts,
                f"{restarts} restarts are counted",
                _COUNTED_SECONDS,
            )

    def wait_for_checkpoints(self, number: int) -> None:
        """Wait until so many more checkpoints are written."""
        before = self._checkpoints()
        with self._described():
            eventually(
                lambda: len(self._checkpoints() - before) >= number,
                f"{number} more checkpoints are written",
                _SAVE_SECONDS,
            )

    def scale(self, workers: int) -> None:
        """Ask for so many workers, as `kubectl scale` does."""
        self.space.kubectl("scale", "tftj", self.job, f"--replicas={workers}")

    def suspend(self) -> None:
        """Suspend the job."""
        self._set_suspend(suspend=True)

    def unsuspend(self) -> None:
        """Let a suspended job go on."""
        self._set_suspend(suspend=False)

    def _set_suspend(self, *, suspend: bool) -> None:
        change = json.dumps({"spec": {"runPolicy": {"suspend": suspend}}})
        self.space.kubectl("patch", "tftj", self.job, "--type=merge", "-p", change)

    def pods(self) -> dict[str, Change]:
        """Return the newest changes of the job's pods that exist, by name."""
        return self.record.present(self.job)

    def wait_for_workers(self, number: int, seconds: float) -> None:
        """Wait until just so many workers exist, ready or not."""
        names = {self.pod("worker", index).name for index in range(number)}
        with self._described():
            eventually(
                lambda: {name for name in self.pods() if "-worker-" in name} == names,
                f"{number} workers exist",
                seconds,
            )

    def wait_for_no_pods(self, seconds: float) -> None:
        """Wait until none of the job's pods exists."""
        with self._described():
            eventually(lambda: not self.pods(), f"{self.job} has no pods", seconds)

    def hurry(self) -> None:
        """Have all who train wait no more before each step."""
        who = f"tftraining.dev/job={self.job},tftraining.dev/role in (chief, worker)"
        for pod in self.space.kubectl("get", "pods", "-o", "name", "-l", who).split():
            self.space.kubectl("exec", pod, "--", "touch", "/tmp/hurry")  # noqa: S108

    def expect_success(self, *, restarts: int | None = None, unreadable: int = 0) -> _Object:
        """Have the job end; it is as good as an undisturbed one. Returns its status.

        So many checkpoints were made unreadable: the ones before them had to do.
        """
        self.hurry()
        return self.wait_for_success(restarts=restarts, unreadable=unreadable)

    def wait_for_success(self, *, restarts: int | None = None, unreadable: int = 0) -> _Object:
        """Expect the same of a job that hurries; it asks nothing of the API server."""
        with self._described():
            status = self._wait_for_end()
            assert status["state"] == "Succeeded", status["state"]
            conditions = {c["type"]: c["status"] for c in status["conditions"]}
            assert conditions["Succeeded"] == "True"
            assert conditions.get("Failed", "False") == "False"
            assert status["progress"]["step"] == status["progress"]["totalSteps"]
            if restarts is not None:
                assert status["restarts"] == restarts, f"{status['restarts']} restarts are counted"
            if self._is_evaluated():
                assert "evaluation" in status, "it was never evaluated"
                assert accuracy(status) >= WANTED_ACCURACY
                assert status["evaluation"]["step"] == status["progress"]["step"]
            older = [r for r in self.record.resumes(self.job) if r.start < r.last_checkpoint]
            assert len(older) <= unreadable, older
            assert not self.record.duplicates
            return status

    def expect_always_running(self, since: float) -> None:
        """The job was Running at every moment since."""
        seen = self.record.conditions(self.job, "Running", since)
        assert set(seen) <= {"True"}, seen

    def _wait_for_end(self) -> _Object:
        """Return the status of a finished job; one that makes steps has all the time it needs."""
        while (status := self._final_status()) is None:
            step = self.record.step(self.job)
            eventually(
                lambda step=step: self._final_status() or self.record.step(self.job) > step,  # type: ignore[misc]
                f"{self.job} is finished, or beyond step {step}",
                _END_SECONDS,
            )
        return status

    def _is_evaluated(self) -> bool:
        """Whether the job has an evaluator."""
        return self._newest().get("spec", {}).get("evaluator") is not None

    def _newest(self) -> _Object:
        """Return the job as it was last seen, {} if it was not."""
        changes = (job for job in reversed(list(self.record.jobs)) if job.name == self.job)
        return next((job.thing for job in changes), {})

    def _final_status(self) -> _Object | None:
        status: _Object = self._newest().get("status", {})
        conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
        return status if conditions.get("Finished") == "True" else None

    def _ready(self, pod: Pod) -> bool:
        found = self.record.pod(pod.name)
        return found is not None and found.ready

    def _checkpoints(self) -> set[int]:
        samples = [*self.record.samples.get(self.job, [])]
        return {sample.checkpoint for sample in samples if sample.checkpoint is not None}

    @contextmanager
    def _described(self) -> Iterator[None]:
        """Add all that is known of the job to a failure's message."""
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.space.describe(self.job)}") from error


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
