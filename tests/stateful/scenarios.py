"""Worlds in which a job lives through a script, and what such a life came to.

A script goes on only when operator and nodes have come to rest, so that two worlds, one of them
disturbed, have the same script. The clock moves only with the script: times are compared as well.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.conditions import is_finished, is_true
from tftraining_operator.core.schedulers.offer import Availability, Offer
from tftraining_operator.reconcile.store import GROUPS, Kind

from tests.unit import kueue
from tests.unit.builders import JobBuilder, PodBuilder, a_job
from tests.unit.fakes import FakeCluster, KilledError, Operator, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tftraining_operator.api.status import Status
    from tftraining_operator.reconcile.store import JobKey

    from tests.unit.fakes import Fault, Lag

CHIEF = "mnist-chief-0"
STATUS_BYTES = 100_000
"""What any status must stay below: etcd takes 1.5 MB, and every watcher gets each version."""


@dataclass(frozen=True)
class Disturbance:
    """What is done to the operator while it works, and to nobody else."""

    faults: Mapping[int, Fault] = field(default_factory=dict)
    """What happens to writes, by their number."""
    lags: Sequence[Lag] = ()
    """How far the watches come before each of the first passes."""
    rival_lags: Sequence[Lag] | None = None
    """Those of a second operator that works at the same time, if there is one."""
    turns: Sequence[int] = ()
    """How many turns the calls wait for, over and over, so that others come in between."""
    crowded: bool = False
    """Whether other jobs always wait for their passes."""


NOTHING = Disturbance()


class World:
    """A cluster, and an operator that is started again whenever it is killed."""

    def __init__(
        self,
        runner: asyncio.Runner,
        job: JobBuilder,
        disturbance: Disturbance = NOTHING,
        offer: Offer | None = None,
    ) -> None:
        pause = _pauses(disturbance.turns) if disturbance.turns else None
        self.cluster = FakeCluster(faults=dict(disturbance.faults), pause=pause)
        self._runner = runner
        self._offer = offer
        self._crowded = disturbance.crowded
        self._job = job
        self.key: JobKey = self.cluster.submit(job.raw)
        self.operators = [self._operator(lags=disturbance.lags)]
        if disturbance.rival_lags is not None:
            self.operators.append(self._operator("rival", lags=disturbance.rival_lags))
        self.go_on()

    def go_on(self, seconds: float = 0) -> None:
        """Let operators and nodes work until nothing is left to do, and so much time is over."""
        clock = self.cluster.clock
        until = clock() + timedelta(seconds=seconds)
        for _ in range(1000):
            moments = [m for operator in self.operators if (m := operator.next_pass) is not None]
            soon = max(clock(), min([*moments, until]))
            try:
                wait(self.operators, (soon - clock()).total_seconds())
            except KilledError:
                self.operators = [self._operator()]
                continue
            if not self.cluster.run_pods() and clock() >= until:
                break
        else:
            raise AssertionError("operators and nodes do not come to rest")

    def ends(self, name: str, code: int) -> None:
        """A pod's container exits, if it runs."""
        self.happens(name, lambda pod: pod.exited(code, seconds=self.elapsed()))

    def happens(self, name: str, change: Callable[[PodBuilder], object]) -> None:
        """Something happens to a pod, if it runs."""
        raw = self.cluster.pods().get(name)
        if raw is not None and raw["status"]["phase"] == "Running":
            self.cluster.act(name, change)
            self.go_on()

    def loses(self, name: str) -> None:
        """A pod is gone at once, with its node."""
        if name in self.cluster.pods():
            self.cluster.collect(name)
            self.go_on()

    def loses_node(self, name: str) -> None:
        """A pod's node falls silent, so that the pod is asked to go and never does."""
        if name in self.cluster.pods():
            self.cluster.lose_node(name)
            self.go_on()

    def edit(self, section: str, **fields: Any) -> None:
        """The user changes a part of the spec."""
        self.cluster.edit(self.key, lambda spec: spec.setdefault(section, {}).update(fields))
        self.go_on()

    def resumes_before_it_is_suspended(self) -> None:
        """The user suspends the job, and resumes it corrected while its chief still saves."""
        self.cluster.suspend(self.key)
        try:
            wait(self.operators, 0)
        except KilledError:
            self.operators = [self._operator()]
            wait(self.operators, 0)
        self._resumes_corrected()

    def resumes_before_anybody_looks(self) -> None:
        """The user suspends the job, and resumes it corrected within a moment."""
        self.cluster.suspend(self.key)
        self._resumes_corrected()

    def _resumes_corrected(self) -> None:
        def correct(spec: dict[str, Any]) -> None:
            spec["template"]["spec"]["containers"][0]["image"] = "corrected"
            spec["runPolicy"]["suspend"] = False

        self.cluster.edit(self.key, correct)
        self.go_on()

    def is_made_again(self) -> None:
        """The user deletes the job and submits it again before anybody has looked."""
        self.cluster.remove_job(self.key)
        self.cluster.submit(self._job.raw)
        self.go_on()

    def elapsed(self) -> float:
        return (self.cluster.clock() - FakeCluster().clock()).total_seconds()

    def _operator(self, instance: str = "test", lags: Iterable[Lag] = ()) -> Operator:
        return Operator(
            self.cluster,
            self._runner,
            instance=instance,
            retry_seconds=0,
            lags=lags,
            offer=self._offer,
            crowded=self._crowded,
        )


def _pauses(turns: Sequence[int]) -> Callable[[], Any]:
    endless = itertools.cycle(turns)

    async def pause() -> None:
        for _ in range(next(endless)):
            await asyncio.sleep(0)

    return pause


@dataclass(frozen=True)
class Scenario:
    name: str
    job: Callable[[], JobBuilder]
    script: Callable[[World], None]
    restarts: int = 0
    state: str = "Running"
    pods: frozenset[str] = field(default_factory=frozenset)
    offer: Offer | None = None
    """Schedulers of the cluster that can place a gang."""

    def run(self, runner: asyncio.Runner, disturbance: Disturbance = NOTHING) -> World:
        world = World(runner, self.job(), disturbance, self.offer)
        self.script(world)
        return world


def end(world: World) -> dict[str, Any]:
    """What a life came to: status with its counters and times, pods, and how many were made."""
    status = dict(world.cluster.job(world.key)["status"])
    chief = world.cluster.pods().get(CHIEF)
    # Which number a uid has depends on what was tried before; whose it is does not.
    status["chiefUid"] = chief is not None and status.get("chiefUid") == chief["metadata"]["uid"]
    status["replacements"] = [dict(known, uid="") for known in status["replacements"]]
    return {
        "status": status,
        "pods": {
            name: (raw["metadata"]["labels"][keys.LABEL_ATTEMPT], raw["status"]["phase"])
            for name, raw in world.cluster.pods().items()
        },
        "services": [name for kind, _, name in world.cluster.objects if kind.value == "Service"],
        "policies": [
            name for kind, _, name in world.cluster.objects if kind is Kind.NETWORK_POLICY
        ],
        "budgets": [
            name for kind, _, name in world.cluster.objects if kind is Kind.DISRUPTION_BUDGET
        ],
        "groups": [name for kind, _, name in world.cluster.objects if kind in GROUPS.values()],
        "workloads": [
            (name, kueue.summary(raw))
            for (kind, _, name), raw in world.cluster.objects.items()
            if kind is Kind.WORKLOAD
        ],
        "made": dict(world.cluster.made),
    }


def told(world: World) -> dict[str, int]:
    """How often each thing was told; `Created` says what one pass made, so it may differ."""
    reasons = [e["reason"] for e in world.cluster.events if e["reason"] != "Created"]
    return {reason: reasons.count(reason) for reason in reasons}


def assert_sane(statuses: Sequence[Status]) -> None:
    """No status of one job says two ends, leaves an end again, or grows without bound."""
    ended: Status | None = None
    for status in statuses:
        ends = [k for k in (ConditionType.SUCCEEDED, ConditionType.FAILED) if is_true(status, k)]
        assert len(ends) <= 1
        assert bool(ends) == is_finished(status)
        if ended is not None:
            assert status.conditions == ended.conditions, "an end is for ever"
        assert len(json.dumps(status.as_dict()).encode()) < STATUS_BYTES
        ended = status if ends else ended


def assert_at_rest(world: World) -> None:
    """Neither the operators that worked nor one that is just started find anything to write."""
    before = world.cluster.writes
    for operator in [*world.operators, world._operator("new")]:
        operator.one_pass(world.key)
    assert world.cluster.writes == before, "at rest a pass writes nothing"


# The scripts that are written out.


def _creation(_world: World) -> None:
    pass


def _two_restarts(world: World) -> None:
    world.ends(CHIEF, 1)
    world.ends(CHIEF, 75)
    world.go_on(seconds=15)


def _success(world: World) -> None:
    world.ends(CHIEF, 0)
    world.ends("mnist-evaluator-0", 0)


def _one_failure(world: World) -> None:
    world.ends(CHIEF, 1)


def _suspend_and_resume(world: World) -> None:
    world.edit("runPolicy", suspend=True)
    world.go_on(seconds=100)
    world.edit("runPolicy", suspend=False)


def _resumed_too_soon(world: World) -> None:
    world.resumes_before_it_is_suspended()
    assert _images(world) == {"corrected"}


def _resumed_unseen(world: World) -> None:
    world.resumes_before_anybody_looks()
    assert _images(world) == {"corrected"}


def _images(world: World) -> set[str]:
    return {raw["spec"]["containers"][0]["image"] for raw in world.cluster.pods().values()}


def _protected_and_not(world: World) -> None:
    world.edit("disruption", budget="None")
    world.edit("disruption", budget="Essential")
    world.edit("runPolicy", suspend=True)
    world.edit("runPolicy", suspend=False)
    world.ends(CHIEF, 0)


def _up_and_down(world: World) -> None:
    world.edit("worker", replicas=3)
    world.edit("worker", replicas=1)


def _lost_servers(world: World) -> None:
    world.loses("mnist-worker-0")
    world.happens("mnist-ps-0", PodBuilder.evicted)
    world.go_on(seconds=11)


def _gang(world: World) -> None:
    world.ends("mnist-worker-1", 1)


def _preempted(world: World) -> None:
    kueue.admit(world.cluster)
    world.go_on()
    world.go_on(seconds=20)
    kueue.evict(world.cluster)
    world.go_on()
    world.go_on(seconds=10)
    assert not world.cluster.pods(), "what is not admitted has no pods"
    kueue.admit(world.cluster)
    world.go_on()
    world.go_on(seconds=30)  # a write whose answer is lost counts as refused


def _preempted_in_part(world: World) -> None:
    kueue.admit(world.cluster, workers=1)
    world.go_on()
    world.go_on(seconds=10)
    kueue.admit(world.cluster, extension=1)
    world.go_on()
    world.go_on(seconds=40)
    kueue.evict(world.cluster, extension=1)
    world.go_on()
    world.go_on(seconds=20)
    assert len(world.cluster.pods()) == 3, "what is not admitted has no pods"
    world.ends(CHIEF, 0)
    world.go_on(seconds=30)


def _extended_and_preempted(world: World) -> None:
    kueue.admit(world.cluster, workers=1)
    world.go_on()
    world.go_on(seconds=10)
    kueue.admit(world.cluster, extension=1)
    world.go_on()
    world.edit("worker", replicas=2)
    kueue.evict(world.cluster)
    world.go_on()
    world.go_on(seconds=20)
    assert not world.cluster.pods(), "what is not admitted has no pods"


def _lost_workload(world: World) -> None:
    kueue.admit(world.cluster)
    world.go_on()
    kueue.delete(world.cluster)
    world.go_on()
    world.go_on(seconds=30)
    assert not world.cluster.pods(), "what is not admitted has no pods"
    kueue.admit(world.cluster)
    world.go_on()
    world.go_on(seconds=30)
    world.ends(CHIEF, 0)
    world.go_on(seconds=30)


def _lost_node(world: World) -> None:
    world.loses_node(CHIEF)
    world.go_on(seconds=120)


def _made_again(world: World) -> None:
    world.ends(CHIEF, 1)
    world.is_made_again()


def _named(*tasks: str) -> frozenset[str]:
    return frozenset(f"mnist-{task}" for task in tasks)


def _queued_with(workers: int) -> JobBuilder:
    job = a_job().with_role("worker", replicas=workers, minReplicas=1)
    return job.with_label(keys.LABEL_QUEUE, "research")


_IN_TREE = Offer({Gang.IN_TREE: "v1beta1"})
USUAL = _named("chief-0", "worker-0", "ps-0")

SCENARIOS = (
    Scenario(
        "a job is created",
        lambda: a_job().with_workers(2),
        _creation,
        pods=USUAL | _named("worker-1"),
    ),
    Scenario("the chief fails twice", a_job, _two_restarts, restarts=2, pods=USUAL),
    Scenario(
        "the chief succeeds, then the evaluator",
        lambda: a_job().with_evaluator(),
        _success,
        state="Succeeded",
        pods=_named("chief-0", "evaluator-0"),
    ),
    Scenario(
        "the chief fails with a backoffLimit of 0",
        lambda: a_job().with_policy(backoffLimit=0),
        _one_failure,
        state="Failed",
        pods=_named("chief-0"),
    ),
    Scenario(
        "all pods of an ended job are cleaned",
        lambda: a_job().with_policy(cleanPodPolicy="All"),
        lambda world: world.ends(CHIEF, 64),
        state="Failed",
    ),
    Scenario("the job is suspended and resumed", a_job, _suspend_and_resume, pods=USUAL),
    Scenario(
        "the job is resumed before it is suspended",
        lambda: a_job().with_policy(suspend=False),
        _resumed_too_soon,
        pods=USUAL,
    ),
    Scenario(
        "the job is suspended, corrected and resumed before anybody looks",
        lambda: a_job().with_policy(suspend=False),
        _resumed_unseen,
        pods=USUAL,
    ),
    Scenario(
        "essential pods are protected as long as there are any",
        lambda: a_job().with_spec(disruption={"budget": "Essential"}),
        _protected_and_not,
        state="Succeeded",
        pods=_named("chief-0"),
    ),
    Scenario("workers are added and taken away", a_job, _up_and_down, pods=USUAL),
    Scenario("servers are lost", a_job, _lost_servers, pods=USUAL),
    Scenario(
        "a mirrored worker fails, so that all start again",
        lambda: a_job().mirrored(workers=2),
        _gang,
        restarts=1,
        pods=_named("chief-0", "worker-0", "worker-1"),
    ),
    Scenario(
        "a gang is suspended and resumed",
        lambda: a_job().with_role("worker", replicas=2, minReplicas=1).with_evaluator(),
        _suspend_and_resume,
        pods=USUAL | _named("worker-1", "evaluator-0"),
        offer=_IN_TREE,
    ),
    Scenario(
        "a gang starts again as a whole",
        lambda: a_job().mirrored(workers=2),
        _gang,
        restarts=1,
        pods=_named("chief-0", "worker-0", "worker-1"),
        offer=_IN_TREE,
    ),
    Scenario(
        "Kueue preempts a job, and admits it again",
        lambda: a_job().with_label(keys.LABEL_QUEUE, "research").with_workers(2),
        _preempted,
        pods=USUAL | _named("worker-1"),
        offer=Offer(workloads=Availability.USABLE),
    ),
    Scenario(
        "Kueue admits some workers later, and preempts them",
        lambda: _queued_with(workers=2),
        _preempted_in_part,
        state="Succeeded",
        pods=_named("chief-0"),
        offer=Offer(workloads=Availability.USABLE),
    ),
    Scenario(
        "a job gives back some workers that it got later, and is preempted",
        lambda: _queued_with(workers=3),
        _extended_and_preempted,
        state="Queued",
        offer=Offer(workloads=Availability.USABLE),
    ),
    Scenario(
        "a job's Workload is deleted, and its successor admitted until the job ends",
        lambda: a_job().with_label(keys.LABEL_QUEUE, "research"),
        _lost_workload,
        state="Succeeded",
        pods=_named("chief-0"),
        offer=Offer(workloads=Availability.USABLE),
    ),
    Scenario("the chief's node falls silent", a_job, _lost_node, pods=USUAL),
    Scenario("a job that has failed once is made again", a_job, _made_again, pods=USUAL),
)
