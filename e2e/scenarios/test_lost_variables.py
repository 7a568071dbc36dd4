"""A lost parameter server or chief costs the steps since the newest checkpoint, and no more."""

import time

import pytest

from e2e import faults, platform_faults
from e2e.jobs import paced
from e2e.scenarios.drill import Drill

_HUNG_SECONDS = 150
_API_AWAY_SECONDS = 30
_STEPS_MEANWHILE = 50
"""Of the 300 that two workers make in that time on an idle machine."""


def restarting_reasons(drill: Drill) -> set[str]:
    """Return every reason that the job's restarts had."""
    return {
        condition["reason"]
        for change in drill.record.jobs
        for condition in change.thing.get("status", {}).get("conditions", [])
        if condition["type"] == "Restarting" and condition["status"] == "True"
    }


@pytest.mark.long
def test_a_lost_ps(drill: Drill) -> None:
    drill.start(paced(ps={"replicas": 2}, evaluator={}))
    ps = drill.pod("ps", 0)

    drill.inject(drill.pod("ps", 1), drill.pod("ps", 1).kill)
    drill.wait_until_resumed(120, restarts=1)
    drill.inject(ps, ps.evict)
    drill.wait_until_resumed(120, restarts=1)
    drill.inject(ps, ps.freeze, _HUNG_SECONDS)
    drill.wait_until_resumed(120, restarts=2)

    assert restarting_reasons(drill) >= {"ParameterServerLost"}
    assert drill.record.resumes(drill.job), "a chief resumed"
    drill.expect_success(restarts=2)


@pytest.mark.long
def test_a_lost_chief_and_a_corrupt_checkpoint(drill: Drill) -> None:
    drill.start(paced(evaluator={}))
    cluster, chief = drill.space.cluster, drill.pod("chief")

    drill.inject(chief, chief.kill)
    drill.wait_until_resumed(120, restarts=1)

    drill.inject(chief, chief.delete)
    drill.wait_until_resumed(120, restarts=1)

    # One to be corrupted, one to fall back to. Frozen, the chief cannot write a newer one.
    drill.wait_for_checkpoints(2)
    chief.freeze()
    faults.corrupt_newest_checkpoint(cluster, drill.space.name, drill.job)
    drill.inject(chief, chief.kill)
    drill.wait_until_resumed(120, restarts=2)
    resume = drill.record.resumes(drill.job)[-1]
    assert 0 < resume.start < resume.last_checkpoint

    status = drill.expect_success(restarts=2, unreadable=1)
    assert status["evaluation"]["final"] is True


@pytest.mark.alone
def test_without_an_api_server_it_trains_on(drill: Drill) -> None:
    drill.start(paced())

    step = drill.record.step(drill.job)
    with platform_faults.without_apiserver(drill.space.cluster):
        time.sleep(_API_AWAY_SECONDS)
    drill.wait_for_steps(60)
    assert drill.record.step(drill.job) > step + _STEPS_MEANWHILE
    drill.expect_success(restarts=0)
