"""Runs jobs, some at once, and hits each with the faults chosen for it."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from e2e import faults
from e2e.chaos.kinds import Kind, choose
from e2e.chaos.recovery import Recovery, recovery
from e2e.install import NAMESPACE
from e2e.jobs import STEPS_AN_EPOCH, paced, tasks
from e2e.recording import Recording, Resume
from e2e.scenarios.drill import Drill, now
from e2e.scenarios.space import Space
from tools.cluster import ClusterError
from tools.cluster.shell import Say
from tools.waiting import eventually, meanwhile

_Object = dict[str, Any]

_BACK_SECONDS = 150.0
_PAUSES = (0.0, 3.0)
_KILLS_APART = (1.0, 8.0)
"""Seconds between two kills of the operator, which needs about three to start."""
_EPOCHS = 16
_NEAR_THE_END = 0.9


@dataclass(frozen=True, slots=True)
class Injected:
    """One fault and what came of it."""

    job: str
    kind: Kind
    recovery: Recovery
    trouble: str = ""
    delayed: bool = False
    """Whether the operator paused on purpose, because the job had failed before."""


@dataclass(slots=True)
class Ended:
    """One job at its end."""

    job: str
    restarts: int
    wanted_restarts: int
    troubles: list[str] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)
    unreadable: int = 0


@dataclass(slots=True)
class Outcome:
    """All that a run of chaos learned."""

    seed: int
    seconds: float = 0.0
    injected: list[Injected] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    operator_kills: int = 0

    @property
    def troubles(self) -> list[str]:
        """Everything that is not as it should be."""
        return [
            *(
                f"{i.job}, {i.kind.role} {i.kind.name}: {i.trouble}"
                for i in self.injected
                if i.trouble
            ),
            *(f"{ended.job}: {trouble}" for ended in self.ended for trouble in ended.troubles),
            *(f"duplicate: {duplicate}" for duplicate in self.duplicates),
        ]


class Chaos:
    """One run: its jobs, its faults, its record."""

    def __init__(self, space: Space, record: Recording, seed: int, say: Say) -> None:
        self._space = space
        self._record = record
        self._random = Random(seed)  # noqa: S311 - chance, not secrets
        self._say = say
        # What all jobs share is hit by one of them at a time, while no other is being hit.
        self._turn = _Turns()
        self.outcome = Outcome(seed)

    def run(self, jobs: int, faults_each: int, at_once: int, deadline: float) -> Outcome:
        """Run jobs with so many faults each, none beginning after the deadline."""
        began = now()
        todo: queue.SimpleQueue[tuple[str, list[Kind], Random]] = queue.SimpleQueue()
        for number in range(1, jobs + 1):
            # Chosen now, each with a source of chance of its own, however the threads take turns.
            random = Random(self._random.random())  # noqa: S311
            todo.put((f"chaos-{number}", choose(random, faults_each), random))
        self._together(at_once, lambda: self._work(todo, deadline))
        return self._finish(began)

    def run_operator_kills(self, jobs: int, kills: int, at_once: int) -> Outcome:
        """Run jobs, each with one fault that the operator repairs, and kill the operator."""
        began = now()
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(1, jobs + 1):
            todo.put(number)
        with meanwhile(lambda end: self._kill_operator(kills, end)):
            self._together(at_once, lambda: self._work_quietly(todo))
        return self._finish(began)

    def _together(self, at_once: int, work: Callable[[], None]) -> None:
        self._space.apply(tasks())
        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _finish(self, began: float) -> Outcome:
        self.outcome.seconds = now() - began
        self.outcome.duplicates = self._record.duplicates
        return self.outcome

    def _work(
        self, todo: queue.SimpleQueue[tuple[str, list[Kind], Random]], deadline: float
    ) -> None:
        while now() < deadline:
            try:
                name, kinds, random = todo.get_nowait()
            except queue.Empty:
                return
            self._guarded(name, lambda n=name, k=kinds, r=random: self._job(n, k, r))  # type: ignore[misc]

    def _guarded(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (AssertionError, ClusterError) as error:
            self._say(f"{name} FAILED: {error}")
            self.outcome.ended.append(Ended(name, 0, 0, troubles=[str(error)[:2000]]))
        with suppress(ClusterError):
            self._space.kubectl("delete", "tftj,pvc", name, "--wait=false")

    def _job(self, name: str, kinds: Sequence[Kind], random: Random) -> None:
        drill = Drill(self._space, self._record, name)
        evaluated = random.random() < 0.5 or any(kind.role == "evaluator" for kind in kinds)
        spec: _Object = {"evaluator": {}} if evaluated else {}
        with self._turn.shared():
            drill.start(paced(name, epochs=_EPOCHS, **spec))
        counted = 0
        for kind in kinds:
            time.sleep(random.uniform(*_PAUSES))
            with self._turn.alone() if not kind.role else self._turn.shared():
                found = self._hit(drill, kind, random, counted)
            counted += kind.counted
            self.outcome.injected.append(found)
            self._say(_line(found, len(self.outcome.injected)))
            if found.trouble or self._record.step(name) > _NEAR_THE_END * _EPOCHS * STEPS_AN_EPOCH:
                break
        self._end(drill, counted, sum(kind.skips_checkpoint for kind in kinds))

    def _hit(self, drill: Drill, kind: Kind, random: Random, counted: int) -> Injected:
        index = random.randrange(2) if kind.role == "worker" else 0
        pod = drill.pod(kind.role or "chief", index)
        trouble = ""
        drill.is_back(pod, ("", 0), _BACK_SECONDS)
        at = now()
        try:
            before = drill.incarnation(pod)
            kind.make(drill, pod)
            if kind.returns:
                drill.is_back(pod, before, _BACK_SECONDS)
            if not kind.role:
                self._operator_leads()
            self._steps_go_on(drill, at)
        except AssertionError as error:
            trouble = str(error)[:2000]
        stops = kind.role in ("chief", "ps")
        watched = drill.pod("chief").name if stops else pod.name
        found = recovery(
            watched,
            [*self._record.pods],
            [*self._record.samples[drill.job]],
            steps_stop=stops,
            at=at,
            end=now(),
        )
        if kind.blinds:
            found = replace(found, standstill=None)
        return Injected(drill.job, kind, found, trouble, delayed=counted + kind.counted > 1)

    def _operator_leads(self) -> None:
        """Wait for it: an eviction that nobody saw cannot be told from a deletion afterwards."""
        cluster = self._space.cluster
        eventually(
            lambda: faults.operator_leads(cluster, NAMESPACE), "an operator leads", _BACK_SECONDS
        )

    def _steps_go_on(self, drill: Drill, at: float) -> None:
        """Wait until the chief that is there now makes steps, not one that has not noticed yet."""
        drill.goes_on(_BACK_SECONDS, at)
        drill.goes_on(_BACK_SECONDS)

    def _end(self, drill: Drill, counted: int, unreadable: int) -> None:
        status = drill.ends_well(unreadable=unreadable)
        ended = Ended(
            drill.job,
            status["restarts"],
            counted,
            resumes=self._record.resumes(drill.job),
            unreadable=unreadable,
        )
        if ended.restarts != counted:
            ended.troubles.append(f"{ended.restarts} restarts are counted, {counted} were caused")
        self.outcome.ended.append(ended)
        self._say(f"{drill.job} {status['state']}, {ended.restarts} restarts")

    # ---- the operator killed again and again ------------------------------------------------
    def _kill_operator(self, kills: int, end: threading.Event) -> None:
        while self.outcome.operator_kills < kills:
            if end.wait(self._random.uniform(*_KILLS_APART)):
                return
            faults.kill_operator(self._space.cluster, NAMESPACE)
            self.outcome.operator_kills += 1
            self._say(f"operator killed, {self.outcome.operator_kills} of {kills}")

    def _work_quietly(self, todo: queue.SimpleQueue[int]) -> None:
        while True:
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            self._guarded(f"chaos-{number}", lambda n=number: self._small_job(n))  # type: ignore[misc]

    def _small_job(self, number: int) -> None:
        """Run a job that loses its chief, a worker or nothing, in turn."""
        name = f"chaos-{number}"
        drill = Drill(self._space, self._record, name)
        drill.start(paced(name, epochs=3, worker={"replicas": 1}))
        counted = 0
        if number % 3 == 0:
            drill.hit(drill.pod("chief"), drill.pod("chief").kill)
            counted = 1
        elif number % 3 == 1:
            drill.hit(drill.pod("worker"), drill.pod("worker").delete)
        self._end(drill, counted, 0)
        left = sorted(p for p in self._space.pods() if p.startswith(f"{name}-"))
        wanted = [f"{name}-chief-0"]
        chiefs = {c.uid for c in self._record.pods if c.name == wanted[0]}
        if len(chiefs) != 1 + counted:
            self.outcome.ended[-1].troubles.append(f"{len(chiefs)} chiefs for {counted} restarts")
        if not set(left) >= set(wanted):
            self.outcome.ended[-1].troubles.append(f"pods at the end: {left}")


class _Turns:
    """Many may share, or one be alone."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._sharing = 0
        self._waiting = 0

    def shared(self) -> "_Turn":
        """Take part; waits while somebody is, or wants to be, alone."""
        return _Turn(self._enter_shared, self._leave_shared)

    def alone(self) -> "_Turn":
        """Be alone; waits until nobody takes part."""
        return _Turn(self._enter_alone, self._leave_alone)

    def _enter_shared(self) -> None:
        with self._change:
            self._change.wait_for(lambda: not self._waiting)
            self._sharing += 1

    def _leave_shared(self) -> None:
        with self._change:
            self._sharing -= 1
            self._change.notify_all()

    def _enter_alone(self) -> None:
        with self._change:
            self._change.wait_for(lambda: not self._waiting)
            self._waiting = 1
            self._change.wait_for(lambda: not self._sharing)

    def _leave_alone(self) -> None:
        with self._change:
            self._waiting = 0
            self._change.notify_all()


class _Turn:
    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._leave()


def _line(found: Injected, number: int) -> str:
    total = found.recovery.total
    what = f"{found.kind.role or 'all'} {found.kind.name}"
    back = f"back after {total:.1f} s" if total is not None else "no pod to wait for"
    still = found.recovery.standstill
    stood = f"steps stood still for {still:.1f} s" if still is not None else "steps not seen"
    trouble = f" TROUBLE: {found.trouble.splitlines()[0]}" if found.trouble else ""
    return f"{number:3} {found.job}: {what}: {back}, {stood}{trouble}"
