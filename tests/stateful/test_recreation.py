"""A job deleted and made again under its name: what the first one leaves is none of the second's.

The old pods run on nodes, so they take their grace to end, and end as failures. They hold all the
names that the new job needs; they have its labels, its name and a job of its kind as owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import LABEL_JOB_UID, ConditionType
from tftraining_operator.core.conditions import find

from tests.stateful.scenarios import CHIEF, World, end
from tests.unit.builders import JobBuilder, a_job
from tests.unit.fakes import Operator

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from tftraining_operator.api.status import Status

JOBS: dict[str, Callable[[], JobBuilder]] = {
    "parameter servers": lambda: a_job().with_workers(2).with_evaluator(),
    "mirrored": lambda: a_job().mirrored(workers=2),
}
every_job = pytest.mark.parametrize("a_new_job", JOBS.values(), ids=JOBS)


class Succession(World):
    """A running job, and its successor that nobody has looked at yet."""

    def __init__(self, runner: asyncio.Runner, job: JobBuilder) -> None:
        super().__init__(runner, job)
        self.old = set(self.cluster.pods())
        self.cluster.remove_job(self.key)
        self.cluster.submit(job.raw)
        self.seen = len(self.cluster.statuses)

    @property
    def uid(self) -> str:
        found: str = self.cluster.job(self.key)["metadata"]["uid"]
        return found

    def collected(self) -> None:
        """The garbage collector asks the old pods to go; their kubelets let them end first."""
        self.cluster.collect_garbage()
        for name in self.old:
            self.cluster.act(name, lambda pod: pod.exited(1, "killed", seconds=self.elapsed()))

    def news(self) -> list[Status]:
        """The statuses that the new job has had."""
        return self.cluster.statuses[self.seen :]


def assert_nothing_is_counted(statuses: list[Status]) -> None:
    assert statuses, "the new job is looked at"
    for status in statuses:
        assert {(r.ready, r.active, r.succeeded, r.failed) for r in status.roles} <= {(0, 0, 0, 0)}
        assert (status.worker_replicas or 0) == 0
        assert (status.attempt, status.restarts) == (0, 0)
        assert status.last_failure is None
        running = find(status.conditions, ConditionType.RUNNING)
        assert running is None or running.status == "False"


@every_job
@pytest.mark.parametrize("restarts", [False, True])
def test_pods_of_the_old_job_are_never_counted_nor_their_names_taken(
    runner: asyncio.Runner, a_new_job: Callable[[], JobBuilder], *, restarts: bool
) -> None:
    world = Succession(runner, a_new_job())
    (operator,) = world.operators
    operator.settle()
    if restarts:
        operator = Operator(world.cluster, runner)
        operator.settle()
    world.collected()
    operator.settle()
    operator.wait(20)
    assert set(world.cluster.pods()) == world.old
    assert set(world.cluster.made.values()) == {1}, "their names are taken"
    assert_nothing_is_counted(world.news())

    world.operators = [operator]
    world.go_on()
    assert world.cluster.status(world.key).state == "Running"
    uids = {raw["metadata"]["labels"][LABEL_JOB_UID] for raw in world.cluster.pods().values()}
    assert uids == {world.uid}


@every_job
def test_one_by_one_as_the_old_pods_go_the_new_ones_come(
    runner: asyncio.Runner, a_new_job: Callable[[], JobBuilder]
) -> None:
    world = Succession(runner, a_new_job())
    (operator,) = world.operators
    world.collected()
    for gone, name in enumerate(sorted(world.old), 1):
        world.cluster.collect(name)
        operator.settle()
        own = [
            raw
            for raw in world.cluster.pods().values()
            if raw["metadata"]["labels"][LABEL_JOB_UID] == world.uid
        ]
        assert len(own) == gone
        status = world.cluster.status(world.key)
        assert sum(role.active for role in status.roles) == gone
        assert sum(role.failed for role in status.roles) == 0
    world.go_on()
    assert world.cluster.status(world.key).state == "Running"
    assert world.cluster.status(world.key).restarts == 0


@every_job
def test_the_new_job_comes_to_the_end_of_one_that_had_no_predecessor(
    runner: asyncio.Runner, a_new_job: Callable[[], JobBuilder]
) -> None:
    def told(world: World) -> World:
        world.ends(CHIEF, 1)
        world.go_on(15)
        world.ends(CHIEF, 0)
        return world

    world = Succession(runner, a_new_job())
    world.collected()
    world.go_on()
    alone, succeeded = end(told(World(runner, a_new_job()))), end(told(world))
    assert succeeded["status"] == alone["status"]
    assert succeeded["pods"] == alone["pods"]


def test_an_operator_that_still_sees_the_old_job_does_the_new_one_no_harm(
    runner: asyncio.Runner,
) -> None:
    world = Succession(runner, a_job())
    late = world.operators[0]
    world.cluster.act(CHIEF, lambda pod: pod.exited(1))
    late.settle(watching=False)
    other = Operator(world.cluster, runner)
    world.operators = [other]
    world.go_on()
    late.look(world.key)
    late.settle(watching=False)
    world.operators = [other, late]
    world.go_on()
    status = world.cluster.status(world.key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 0, 0)
    assert_nothing_is_counted([s for s in world.news() if s.start_time is None] or world.news()[:1])
