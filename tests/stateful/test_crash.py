"""At every single write something goes wrong, and the operator comes to the same end.

The same end is the same status (conditions with their times, attempt, restarts, failures), the same
pods, and no pod made once more than without the disturbance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stateful.scenarios import (
    CHIEF,
    SCENARIOS,
    Disturbance,
    Scenario,
    World,
    assert_at_rest,
    assert_sane,
    end,
    told,
)
from tests.unit.builders import a_job
from tests.unit.fakes import Fault

if TYPE_CHECKING:
    import asyncio

by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)


@by_name
def test_the_scenario_ends_as_expected(runner: asyncio.Runner, scenario: Scenario) -> None:
    world = scenario.run(runner)
    status = world.cluster.status(world.key)
    assert (status.state, status.restarts) == (scenario.state, scenario.restarts)
    assert set(world.cluster.pods()) == scenario.pods


@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.LOST], ids=lambda f: f.value)
@by_name
def test_whatever_happens_to_any_write_the_end_is_the_same(
    runner: asyncio.Runner, scenario: Scenario, fault: Fault
) -> None:
    undisturbed = scenario.run(runner)
    assert undisturbed.cluster.writes > 5
    for write in range(1, undisturbed.cluster.writes + 1):
        world = scenario.run(runner, Disturbance({write: fault}))
        assert not world.cluster.faults, "it did happen"
        assert end(world) == end(undisturbed), f"write {write} {fault}"
        assert_sane(world.cluster.statuses)
        assert all(count <= told(undisturbed)[reason] for reason, count in told(world).items())
        assert_at_rest(world)


def _expiry(world: World) -> None:
    world.ends(CHIEF, 0)
    world.go_on(seconds=61)


def test_killed_around_the_expiry_the_job_is_gone_with_all_it_had(runner: asyncio.Runner) -> None:
    scenario = Scenario("", lambda: a_job().with_policy(ttlSecondsAfterFinished=60), _expiry)
    writes = scenario.run(runner).cluster.writes
    for write in range(1, writes + 1):
        world = scenario.run(runner, Disturbance({write: Fault.KILLED}))
        assert world.cluster.objects == {}, f"killed at write {write}"
