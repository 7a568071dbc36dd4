"""What happened to the jobs of a namespace: every change of pods and jobs, and the step counter.

Times are this process's monotonic seconds at which a change arrived; the pods' own timestamps know
whole seconds only.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.api import Api, ApiError, open_api
from tools.cluster import Cluster
from tools.waiting import eventually

_Object = dict[str, Any]

_GROUP = "tftraining.dev"
_SAMPLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Change:
    """A pod or job as it was from a moment on."""

    at: float
    kind: str
    """ADDED, MODIFIED or DELETED."""
    thing: _Object

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.thing["metadata"]["uid"])

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.thing["metadata"]["name"])

    @property
    def version(self) -> int:
        """The resource version: it orders the changes of all objects, whichever is heard first."""
        return int(self.thing["metadata"]["resourceVersion"])

    def label(self, name: str) -> str:
        """Read one of our labels, "" if it is not there."""
        return str(self.thing["metadata"].get("labels", {}).get(f"{_GROUP}/{name}", ""))

    @property
    def started(self) -> bool:
        """Whether the pod's training container runs."""
        return any("running" in status.get("state", {}) for status in self._containers)

    @property
    def ready(self) -> bool:
        """Whether the pod is ready and stays."""
        conditions = self.thing.get("status", {}).get("conditions", [])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return ready and not self.lost

    @property
    def lost(self) -> bool:
        """Whether it shows that the pod serves no more: ended, ending or gone."""
        return (
            self.kind == "DELETED"
            or self.leaving
            or self.thing.get("status", {}).get("phase") in ("Failed", "Succeeded")
        )

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted."""
        return "deletionTimestamp" in self.thing["metadata"]

    @property
    def ended(self) -> bool:
        """Whether it shows that the process is gone, and not only asked to end."""
        return self.kind == "DELETED" or (not self.leaving and not self.started and self._ran)

    @property
    def in_restart_backoff(self) -> bool:
        """Whether the kubelet says that it puts off starting the process again."""
        states = (status.get("state", {}).get("waiting", {}) for status in self._containers)
        return any(waiting.get("reason") == "CrashLoopBackOff" for waiting in states)

    @property
    def restarts(self) -> int:
        """How often the container was restarted in place."""
        return max((int(s.get("restartCount", 0)) for s in self._containers), default=0)

    @property
    def _ran(self) -> bool:
        return any(
            "terminated" in status.get("state", {}) or "terminated" in status.get("lastState", {})
            for status in self._containers
        )

    @property
    def _containers(self) -> list[_Object]:
        found: list[_Object] = self.thing.get("status", {}).get("containerStatuses", [])
        return [status for status in found if status["name"] == "tensorflow"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a chief reported of its progress."""

    at: float
    chief: str
    """The pod's uid."""
    phase: str
    step: int
    checkpoint: int | None
    """Step of the newest checkpoint."""


@dataclass(frozen=True, slots=True)
class Resume:
    """A chief that went on from what an earlier one left."""

    at: float
    """When it first said that it trains."""
    last_step: int
    """How far the earlier one was known to be."""
    last_checkpoint: int
    """The earlier one's newest checkpoint that is known, 0 for none."""
    start: int
    """Where it began: the step of the checkpoint that it restored."""
    interval: int
    """Most steps that lay between two checkpoints of the earlier one, 0 if it wrote but one."""

    @property
    def lost(self) -> int:
        """Steps that were made in vain."""
        return max(0, self.last_step - self.start)


@dataclass(slots=True)
class Recording:
    """All that was seen; written by threads, read by the test."""

    api: Api
    namespace: str
    pods: list[Change] = field(default_factory=list)
    jobs: list[Change] = field(default_factory=list)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    """By job."""
    _present: dict[str, dict[str, Change]] = field(default_factory=dict)
    """Pods that exist, by name and uid."""
    _chiefs: dict[str, str] = field(default_factory=dict)
    """Uid of each job's chief that runs."""
    duplicates: list[str] = field(default_factory=list)
    """Pods that existed while another of the same job, role and index did."""

    def see_pod(self, kind: str, pod: _Object) -> None:
        """Note a change of a pod."""
        change = Change(time.monotonic(), kind, pod)
        self.pods.append(change)
        key = "/".join(change.label(name) for name in ("job", "role", "index"))
        present = self._present.setdefault(key, {})
        if kind == "DELETED":
            present.pop(change.uid, None)
        else:
            if change.uid not in present and present:
                self.duplicates.append(f"{change.name} ({change.uid}) beside {[*present]}")
            present[change.uid] = change
        if change.label("role") == "chief":
            job = change.label("job")
            if change.started and not change.ended:
                self._chiefs[job] = change.uid
            elif self._chiefs.get(job) == change.uid:
                del self._chiefs[job]

    def see_job(self, kind: str, job: _Object) -> None:
        """Note a change of a job."""
        self.jobs.append(Change(time.monotonic(), kind, job))

    def sample(self) -> None:
        """Ask every chief once."""
        for job, chief in list(self._chiefs.items()):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{job}-chief-0:8080/proxy/progress"
            try:
                said = self.api.get(path, timeout=3.0)
            except ApiError:
                continue
            saved = said.get("lastCheckpoint")
            found = Sample(
                at=time.monotonic(),
                chief=chief,
                phase=said["phase"],
                step=said["step"],
                checkpoint=saved["step"] if saved else None,
            )
            self.samples.setdefault(job, []).append(found)

    def step(self, job: str) -> int:
        """Return the step that was last reported, 0 if none was."""
        samples = self.samples.get(job)
        return samples[-1].step if samples else 0

    def wait_for_steps(self, job: str, seconds: float, since: float | None = None) -> float:
        """Wait until the job makes steps after a moment (now); return when it did."""
        since = time.monotonic() if since is None else since

        def moved() -> float | None:
            return first_steps_after(self.samples.get(job, []), since)

        return eventually(moved, f"{job} makes steps (it stands at {self.step(job)})", seconds)

    def pod(self, name: str) -> Change | None:
        """Return the newest change of the pod of a name that exists."""
        for change in reversed(list(self.pods)):
            if change.name == name:
                return None if change.kind == "DELETED" else change
        return None

    def present(self, job: str) -> dict[str, Change]:
        """Return the newest changes of the pods of a job ("" for all jobs) that exist, by name."""
        changes = [c for each in list(self._present.values()) for c in list(each.values())]
        return {c.name: c for c in changes if job in ("", c.label("job"))}

    def resumes(self, job: str) -> list[Resume]:
        """Return where each chief but the first began, and what the one before had reached."""
        found = []
        before: list[Sample] = []
        for sample in self.samples.get(job, []):
            if sample.phase not in ("training", "done"):
                continue
            if before and sample.chief != before[-1].chief:
                saved = max((s.checkpoint or 0 for s in before), default=0)
                start = min(sample.checkpoint or 0, sample.step)
                interval = max(_distances(before), default=0)
                found.append(Resume(sample.at, before[-1].step, saved, start, interval))
                before = []
            before.append(sample)
        return found

    def restarts(self, job: str) -> list[str]:
        """Return what the operator wrote of each restart, in order."""
        found = []
        for change in list(self.jobs):
            said = change.thing.get("status", {}).get("lastRestart")
            if change.name == job and said is not None:
                counted = "counted" if said["counted"] else "not counted"
                text = f"{said['time']} {counted}, {said['reason']}: {said.get('message', '')}"
                found.append(text)
        return list(dict.fromkeys(found))

    def conditions(self, job: str, kind: str, since: float = 0.0) -> list[str]:
        """Return the values that a condition had from a moment on."""
        return [
            condition["status"]
            for change in list(self.jobs)
            if change.name == job and change.at >= since
            for condition in change.thing.get("status", {}).get("conditions", [])
            if condition["type"] == kind
        ]


def _distances(samples: Iterable[Sample]) -> list[int]:
    """Return how many steps lay between each two checkpoints that one chief wrote."""
    saved = sorted({s.checkpoint for s in samples if s.checkpoint is not None})
    return [newer - older for older, newer in itertools.pairwise(saved)]


def first_steps_after(samples: list[Sample], since: float) -> float | None:
    """Return when steps were first seen to be made after a moment, by one chief."""
    before: Sample | None = None
    for sample in list(samples):
        if sample.at < since or sample.phase not in ("training", "done"):
            continue
        if before is not None and before.chief == sample.chief and sample.step > before.step:
            return sample.at
        if sample.phase == "done":
            return sample.at
        before = sample
    return None


@contextmanager
def recording(cluster: Cluster, namespace: str) -> Iterator[Recording]:
    """Record a namespace for the time of the block."""
    end = threading.Event()
    with open_api(cluster) as api:
        record = Recording(api, namespace)
        pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector={_GROUP}/job"
        jobs = f"/apis/{_GROUP}/v1alpha1/namespaces/{namespace}/tftrainingjobs"
        work: list[Callable[[], None]] = [
            lambda: api.watch(pods, record.see_pod, end),
            lambda: api.watch(jobs, record.see_job, end),
            lambda: _every(_SAMPLE_SECONDS, record.sample, end),
        ]
        threads = [threading.Thread(target=each, daemon=True) for each in work]
        for thread in threads:
            thread.start()
        try:
            yield record
        finally:
            end.set()


def _every(seconds: float, act: Callable[[], None], end: threading.Event) -> None:
    while not end.wait(seconds):
        act()
