"""Runs jobs, some at once, and hits each with the faults chosen for it."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from e2e import platform_faults
from e2e.chaos.harm import ends_of_jobs, healthy_deleted
from e2e.chaos.injections import Fault
from e2e.chaos.kinds import KINDS, STALL_SECONDS, STARTUP_SECONDS, Kind, deal
from e2e.chaos.outcome import Ended, Injected, Outcome
from e2e.chaos.recovery import recovery
from e2e.chaos.turns import Turns
from e2e.jobs import STEPS_AN_EPOCH, paced, tasks
from e2e.previous import Version
from e2e.recording import Change, Recording
from e2e.scenarios.drill import Drill, incarnation, now
from e2e.scenarios.space import Space
from tools.cluster import Cluster, ClusterError
from tools.cluster.shell import Say
from tools.waiting import eventually, meanwhile

_Object = dict[str, Any]

_BACK_SECONDS = 150.0
_PAUSES = (0.0, 3.0)
_KILLS_APART = (1.0, 8.0)
"""Seconds between two kills of the operator, which needs about three to start."""
_EPOCHS = 12
_NEAR_THE_END = 0.9
_RUN_POLICY = {
    "backoffLimit": 20,
    "stallTimeoutSeconds": STALL_SECONDS,
    "startupDeadlineSeconds": STARTUP_SECONDS,
}


class Chaos:
    """One run: its jobs, its faults, its record."""

    def __init__(
        self, space: Space, record: Recording, seed: int, say: Say, previous: Version | None = None
    ) -> None:
        self._space = space
        self._record = record
        self._random = Random(seed)  # noqa: S311 - chance, not secrets
        self._say = say
        self._previous = previous
        # What all jobs share is hit by one of them at a time, while no other is being hit.
        self._turns = Turns()
        self.outcome = Outcome(seed)

    def run(
        self,
        jobs: int,
        faults_each: int,
        at_once: int,
        deadline: float,
        kinds: Sequence[Kind] = KINDS,
    ) -> Outcome:
        """Run jobs with so many faults each, none beginning after the deadline."""
        began = now()
        todo: queue.SimpleQueue[tuple[str, list[Kind], Random]] = queue.SimpleQueue()
        for number, hand in enumerate(deal(self._random, jobs, faults_each, kinds), 1):
            # Chosen now, each with a source of chance of its own, however the threads take turns.
            random = Random(self._random.random())  # noqa: S311
            todo.put((f"chaos-{number}", hand, random))
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
        outcome, record = self.outcome, self._record
        outcome.seconds = now() - began
        outcome.duplicates = record.duplicates
        if outcome.injected:
            explained = (uid for injected in outcome.injected for uid in injected.explained)
            ends = ends_of_jobs([*record.jobs])
            outcome.harms = healthy_deleted([*record.pods], ends, explained)
        return outcome

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
        except Exception as error:  # noqa: BLE001 - who waits for this thread would not hear of it
            said = f"{type(error).__name__}: {error}"
            self._say(f"{name} FAILED: {said}")
            self.outcome.ended.append(Ended(name, 0, 0, errors=[said[:2000]]))
        with suppress(ClusterError):
            self._space.kubectl("delete", "tftj,pvc", name, "--wait=false")

    def _job(self, name: str, kinds: Sequence[Kind], random: Random) -> None:
        drill = Drill(self._space, self._record, name)
        evaluated = random.random() < 0.5 or any(kind.role == "evaluator" for kind in kinds)
        spec: _Object = {"evaluator": {}} if evaluated else {}
        with self._turns.shared():
            # Those who place a new job's pods: its startup deadline is short.
            self._wait_until_leads(platform_faults.controllers_lead, "scheduler and controllers")
            drill.start(paced(name, epochs=_EPOCHS, runPolicy=_RUN_POLICY, **spec))
        counted = unreadable = 0
        for kind in kinds:
            time.sleep(random.uniform(*_PAUSES))
            with self._turns.alone() if kind.exclusive else self._turns.shared():
                found = self._inject(drill, kind, random, counted)
            counted += kind.counted
            unreadable += kind.skips_checkpoint
            self.outcome.injected.append(found)
            self._say(_line(found, len(self.outcome.injected)))
            if found.error or self._record.step(name) > _NEAR_THE_END * _EPOCHS * STEPS_AN_EPOCH:
                break
        self._end(drill, counted, unreadable)

    def _inject(self, drill: Drill, kind: Kind, random: Random, counted: int) -> Injected:
        index = random.randrange(2) if kind.role == "worker" else 0
        pod = drill.pod(kind.role if kind.hits_pod else "chief", index)
        error = ""
        drill.wait_until_back(pod, ("", 0), _BACK_SECONDS)
        present = self._present(drill, kind)
        explained = frozenset(
            change.uid
            for name, change in present.items()
            if (kind.returns and name == pod.name)
            or (change.label("job") == drill.job and change.label("role") in kind.replaces)
        )
        at = now()
        try:
            before = drill.incarnation(pod)
            kind.inject(Fault(drill, pod, self._previous))
            if kind.returns:
                drill.wait_until_back(pod, before, _BACK_SECONDS)
            if not kind.role:
                # Else an eviction that nobody saw looks like a deletion afterwards.
                self._wait_until_leads(platform_faults.operator_leads, "an operator")
            self._wait_for_steps(drill, at)
        except (AssertionError, ClusterError) as raised:
            error = str(raised)[:2000] or repr(raised)
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
        return Injected(
            *(at, drill.job, kind, found, error),
            delayed=counted + kind.counted > 1,
            explained=explained,
            restarted=self._restarted(present, explained),
        )

    def _present(self, drill: Drill, kind: Kind) -> dict[str, Change]:
        """Return the pods of the jobs that a fault may concern, by name."""
        return self._record.present("" if kind.exclusive else drill.job)

    def _restarted(self, before: dict[str, Change], explained: frozenset[str]) -> tuple[str, ...]:
        """Return which of the pods that were ready are not the same any more."""
        ended = ends_of_jobs([*self._record.jobs])
        present = self._record.present("")
        return tuple(
            name
            for name, change in sorted(before.items())
            if change.ready and change.uid not in explained and change.label("job") not in ended
            if name not in present or incarnation(present[name]) != incarnation(change)
        )

    def _wait_until_leads(self, leads: Callable[[Cluster, datetime], bool], who: str) -> None:
        """Wait for a lease that is renewed from now on."""
        cluster, since = self._space.cluster, datetime.now(UTC)
        eventually(lambda: leads(cluster, since), f"{who} leads", _BACK_SECONDS)

    def _wait_for_steps(self, drill: Drill, at: float) -> None:
        """Wait until the chief that is there now makes steps, not one that has not noticed yet."""
        drill.wait_for_steps(_BACK_SECONDS, at)
        drill.wait_for_steps(_BACK_SECONDS)

    def _end(self, drill: Drill, counted: int, unreadable: int) -> None:
        with self._turns.shared():
            drill.hurry()
        status = drill.wait_for_success(unreadable=unreadable)
        ended = Ended(
            drill.job,
            status["restarts"],
            counted,
            resumes=self._record.resumes(drill.job),
            unreadable=unreadable,
        )
        if ended.restarts != counted:
            ended.errors.append(
                f"{ended.restarts} restarts are counted, {counted} were caused:\n"
                + "\n".join(self._record.restarts(drill.job))
            )
        self.outcome.ended.append(ended)
        self._say(f"{drill.job} {status['state']}, {ended.restarts} restarts")

    # ---- the operator killed again and again ------------------------------------------------
    def _kill_operator(self, kills: int, end: threading.Event) -> None:
        while self.outcome.operator_kills < kills:
            if end.wait(self._random.uniform(*_KILLS_APART)):
                return
            platform_faults.kill_operator(self._space.cluster)
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
        drill.start(paced(name, epochs=3, milliseconds=100, worker={"replicas": 1}))
        counted = 0
        if number % 3 == 0:
            drill.inject(drill.pod("chief"), drill.pod("chief").kill)
            counted = 1
        elif number % 3 == 1:
            drill.inject(drill.pod("worker"), drill.pod("worker").delete)
        self._end(drill, counted, 0)
        left = sorted(p for p in self._space.pods() if p.startswith(f"{name}-"))
        wanted = [f"{name}-chief-0"]
        chiefs = {c.uid for c in self._record.pods if c.name == wanted[0]}
        if len(chiefs) != 1 + counted:
            self.outcome.ended[-1].errors.append(f"{len(chiefs)} chiefs for {counted} restarts")
        if not set(left) >= set(wanted):
            self.outcome.ended[-1].errors.append(f"pods at the end: {left}")


def _line(found: Injected, number: int) -> str:
    total = found.recovery.total
    back = f"back after {total:.1f} s" if total is not None else "no pod to wait for"
    still = found.recovery.standstill
    stood = f"steps stood still for {still:.1f} s" if still is not None else "steps not seen"
    wrong = f" WRONG: {found.error.splitlines()[0]}" if found.error else ""
    wrong += f" RESTARTED: {', '.join(found.restarted)}" if found.restarted else ""
    return f"{number:3} {found.job}: {found.kind.title}: {back}, {stood}{wrong}"
