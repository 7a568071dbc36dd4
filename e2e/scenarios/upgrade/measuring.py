"""Three jobs that train while the operator's version changes, and what becomes of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from e2e.jobs import claim, paced, tasks
from e2e.leadership import Held, handovers, leadership
from e2e.platform_faults import lease_holder, operator_pods
from e2e.recording import Recording, recording
from e2e.scenarios.drill import incarnation
from e2e.scenarios.space import Space
from e2e.scenarios.upgrade.report import Effect, VersionChange, longest_pause, lost_steps, new_steps
from tools.waiting import eventually

_Object = dict[str, Any]

_START_SECONDS = 240
_LEADS_SECONDS = 60
_REPORTED_SECONDS = 60
_EPOCHS = 1000
_STEP_MILLISECONDS = 200


def training_jobs() -> list[_Object]:
    """Return one job of each strategy, which trains until it is deleted."""

    def job(name: str, strategy: str, **spec: Any) -> _Object:  # noqa: ANN401 - YAML
        roles = {"strategy": strategy, "worker": {"replicas": 1}} | spec
        made = paced(name, epochs=_EPOCHS, milliseconds=_STEP_MILLISECONDS, **roles)
        made["spec"] = {field: value for field, value in made["spec"].items() if value is not None}
        return made

    return [
        job("servers", "ParameterServer"),
        job("workers", "MultiWorkerMirrored", ps=None),
        job("alone", "Mirrored", ps=None, worker=None),
    ]


class Upgrade:
    """Jobs that train, and what changes of the operator's version do to them."""

    def __init__(self, space: Space, record: Recording, writes: Sequence[Held]) -> None:
        self._space = space
        self._record = record
        self._writes = writes
        self._jobs = [job["metadata"]["name"] for job in training_jobs()]

    def start(self) -> None:
        """Have the jobs train."""
        self._space.apply(tasks(), *map(claim, self._jobs), *training_jobs())
        self._wait_for_progress(_START_SECONDS)

    def measure(
        self, title: str, change: Callable[[], None], *, operated: bool = True
    ) -> VersionChange:
        """Make a change, and wait until each job has made steps since.

        Where an operator is left (`operated`), a leader that stays has written them too.
        """
        before = {name: self._incarnations(name) for name in self._jobs}
        began = time.monotonic()
        change()
        seconds = time.monotonic() - began
        if operated:
            eventually(self._is_led, "a pod that stays leads", _LEADS_SECONDS)
            self._wait_for_progress(_REPORTED_SECONDS)
        else:
            for name in self._jobs:
                self._record.wait_for_steps(name, _REPORTED_SECONDS)
        ended = time.monotonic()
        return VersionChange(
            title,
            seconds,
            tuple(each.gap for each in handovers([*self._writes]) if began <= each.at <= ended),
            tuple(self._effect(name, before[name], began, ended) for name in self._jobs),
        )

    def _is_led(self) -> bool:
        cluster = self._space.cluster
        return lease_holder(cluster) in {pod.name for pod in operator_pods(cluster)}

    def _wait_for_progress(self, seconds: float) -> None:
        """Wait until each status has a step that was made from now on."""
        since = {name: self._record.step(name) for name in self._jobs}

        def are_told() -> bool:
            return all(self._told_step(name) > since[name] for name in self._jobs)

        eventually(are_told, "the status of each job has a new step", seconds)

    def _told_step(self, name: str) -> int:
        return int((self._space.status(name).get("progress") or {}).get("step", 0))

    def _incarnations(self, name: str) -> Mapping[str, tuple[str, int]]:
        return {pod: incarnation(change) for pod, change in self._record.present(name).items()}

    def _effect(
        self, name: str, before: Mapping[str, tuple[str, int]], began: float, ended: float
    ) -> Effect:
        after = self._incarnations(name)
        samples = [s for s in self._record.samples[name] if began <= s.at <= ended]
        times = [c.at for c in [*self._record.jobs] if c.name == name and began <= c.at <= ended]
        return Effect(
            job=name,
            pods=len(before),
            replaced=tuple(sorted(pod for pod in before if after.get(pod) != before[pod])),
            restarts=self._space.status(name)["restarts"],
            first_step=samples[0].step,
            last_step=samples[-1].step,
            lost_steps=lost_steps(samples),
            standstill=longest_pause([began, *new_steps(samples), ended]),
            silence=longest_pause([began, *times, ended]),
        )


@contextmanager
def upgrading(space: Space) -> Iterator[Upgrade]:
    """Record a namespace and the operator's Lease for the time of the block."""
    with recording(space.cluster, space.name) as record, leadership(space.cluster) as writes:
        yield Upgrade(space, record, writes)
