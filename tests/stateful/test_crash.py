"""The operator's process ends at every single write, and another one comes to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import is_finished, is_true

from tests.unit.builders import JobBuilder, a_job
from tests.unit.fakes import FakeCluster, KilledError, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tftraining_operator.api.status import Status
    from tftraining_operator.controller.store import JobKey

CHIEF = "mnist-chief-0"


class World:
    """A cluster, and an operator that is started again whenever it is killed."""

    def __init__(self, runner: asyncio.Runner, job: JobBuilder, *, die_at: int) -> None:
        self.cluster = FakeCluster(die_at=die_at)
        self.key: JobKey = self.cluster.submit(job.raw)
        self._runner = runner
        self.operator = Operator(self.cluster, runner)
        self.go_on()

    def go_on(self, seconds: float = 0) -> None:
        """Let operator and nodes work until nothing is left to do."""
        until = self.cluster.clock().timestamp() + seconds
        for _ in range(20):
            try:
                self.operator.wait(until - self.cluster.clock().timestamp())
            except KilledError:
                self.operator = Operator(self.cluster, self._runner)
                continue
            if not self.cluster.run_pods():
                break
        else:
            raise AssertionError("operator and nodes do not come to rest")

    def ends(self, name: str, code: int) -> None:
        """A pod's container exits."""
        self.cluster.act(name, lambda pod: pod.exited(code))
        self.go_on()

    def edit(self, section: str, **fields: Any) -> None:
        """The user changes a part of the spec."""
        self.cluster.edit(self.key, lambda spec: spec.setdefault(section, {}).update(fields))
        self.go_on()


@dataclass(frozen=True)
class Scenario:
    name: str
    job: Callable[[], JobBuilder]
    story: Callable[[World], None]
    restarts: int = 0
    state: str = "Running"
    pods: frozenset[str] = field(default_factory=frozenset)


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


def _up_and_down(world: World) -> None:
    world.edit("worker", replicas=3)
    world.edit("worker", replicas=1)


def _lost_servers(world: World) -> None:
    world.cluster.collect("mnist-worker-0")
    world.go_on()
    world.cluster.act("mnist-ps-0", lambda pod: pod.evicted())
    world.go_on(seconds=11)


def _gang(world: World) -> None:
    world.ends("mnist-worker-1", 1)


def _expiry(world: World) -> None:
    world.ends(CHIEF, 0)
    world.go_on(seconds=61)


def _named(*tasks: str) -> frozenset[str]:
    return frozenset(f"mnist-{task}" for task in tasks)


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
    Scenario("workers are added and taken away", a_job, _up_and_down, pods=USUAL),
    Scenario("servers are lost", a_job, _lost_servers, pods=USUAL),
    Scenario(
        "a mirrored worker fails, so that all start again",
        lambda: a_job().mirrored(workers=2),
        _gang,
        restarts=1,
        pods=_named("chief-0", "worker-0", "worker-1"),
    ),
)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as found:
        yield found


def _run(runner: asyncio.Runner, scenario: Scenario, *, die_at: int = 0) -> World:
    world = World(runner, scenario.job(), die_at=die_at)
    scenario.story(world)
    return world


def _end(world: World) -> dict[str, Any]:
    """What a run came to; times included, as the clock moves only with the story."""
    return {
        "status": world.cluster.job(world.key)["status"],
        "pods": {
            name: (raw["metadata"]["labels"][keys.LABEL_ATTEMPT], raw["status"]["phase"])
            for name, raw in world.cluster.pods().items()
        },
        "services": [name for kind, _, name in world.cluster.objects if kind.value == "Service"],
        "made": dict(world.cluster.made),
    }


def _told(world: World) -> dict[str, int]:
    """How often each thing was told; `Created` says what one pass made, so it may differ."""
    reasons = [e["reason"] for e in world.cluster.events if e["reason"] != "Created"]
    return {reason: reasons.count(reason) for reason in reasons}


def _assert_sane(statuses: list[Status]) -> None:
    ended: Status | None = None
    for status in statuses:
        ends = [k for k in (ConditionType.SUCCEEDED, ConditionType.FAILED) if is_true(status, k)]
        assert len(ends) <= 1
        assert bool(ends) == is_finished(status)
        if ended is not None:
            assert status.conditions == ended.conditions, "an end is for ever"
        ended = status if ends else ended


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_the_story_ends_as_told(runner: asyncio.Runner, scenario: Scenario) -> None:
    world = _run(runner, scenario)
    status = world.cluster.status(world.key)
    assert (status.state, status.restarts) == (scenario.state, scenario.restarts)
    assert set(world.cluster.pods()) == scenario.pods
    _assert_sane(world.cluster.statuses)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_killed_at_any_write_it_comes_to_the_same_end(
    runner: asyncio.Runner, scenario: Scenario
) -> None:
    undisturbed = _run(runner, scenario)
    assert undisturbed.cluster.writes > 5
    for write in range(1, undisturbed.cluster.writes + 1):
        world = _run(runner, scenario, die_at=write)
        assert world.cluster.writes >= write, "the process did end"
        assert _end(world) == _end(undisturbed), f"killed at write {write}"
        _assert_sane(world.cluster.statuses)
        told = _told(world)
        assert all(count <= _told(undisturbed)[reason] for reason, count in told.items())
        before = world.cluster.writes
        world.operator.one_pass(world.key)
        assert world.cluster.writes == before, "at rest a pass writes nothing"


def test_killed_around_the_expiry_the_job_is_gone_with_all_it_had(runner: asyncio.Runner) -> None:
    scenario = Scenario("", lambda: a_job().with_policy(ttlSecondsAfterFinished=60), _expiry)
    writes = _run(runner, scenario).cluster.writes
    for write in range(1, writes + 1):
        world = _run(runner, scenario, die_at=write)
        assert world.cluster.objects == {}, f"killed at write {write}"
