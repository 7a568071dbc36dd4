"""A lost parameter server or chief costs the steps since the newest checkpoint, and no more."""

from e2e import faults
from e2e.jobs import paced
from e2e.scenarios.drill import Drill
from tools.waiting import eventually

_HUNG_SECONDS = 150
_API_AWAY_SECONDS = 30
_STEPS_MEANWHILE = 100
"""Of the 600 that two workers make in that time on an idle machine."""


def restarting_reasons(drill: Drill) -> set[str]:
    """Return every reason that the job's restarts had."""
    return {
        condition["reason"]
        for change in drill.record.jobs
        for condition in change.thing.get("status", {}).get("conditions", [])
        if condition["type"] == "Restarting" and condition["status"] == "True"
    }


def test_a_lost_ps(drill: Drill) -> None:
    drill.start(paced(ps={"replicas": 2}, evaluator={}))
    ps = drill.pod("ps", 0)

    drill.hit(drill.pod("ps", 1), drill.pod("ps", 1).kill)
    drill.resumed(120, restarts=1)
    drill.hit(ps, ps.evict)
    drill.resumed(120, restarts=1)
    drill.hit(ps, ps.delete)
    drill.resumed(120, restarts=2)
    drill.hit(ps, ps.freeze, _HUNG_SECONDS)
    drill.resumed(120, restarts=3)

    assert restarting_reasons(drill) >= {"ParameterServerLost"}
    assert drill.record.resumes(drill.job), "a chief resumed"
    drill.ends_well(restarts=3)


def test_a_lost_chief_a_corrupt_checkpoint_and_no_api_server(drill: Drill) -> None:
    drill.start(paced(evaluator={}))
    cluster, chief = drill.space.cluster, drill.pod("chief")

    drill.hit(chief, chief.kill)
    drill.resumed(120, restarts=1)

    drill.hit(chief, chief.delete)
    drill.resumed(120, restarts=1)

    # One to be corrupted, one to fall back to. Frozen, the chief cannot write a newer one.
    drill.saves(2)
    chief.freeze()
    corrupt = faults.corrupt_newest_checkpoint(cluster, drill.space.name, drill.job)
    drill.hit(chief, chief.kill)
    drill.resumed(120, restarts=2)
    said = eventually(
        lambda: t if "training from step" in (t := drill.space.logs(chief.name)) else "",
        "the chief says where it begins",
        30,
    )
    assert f"{corrupt} cannot be read, trying an older one" in said

    step = drill.record.step(drill.job)
    faults.stop_apiserver(cluster, _API_AWAY_SECONDS)
    drill.goes_on(60)
    assert drill.record.step(drill.job) > step + _STEPS_MEANWHILE
    status = drill.ends_well(restarts=2, unreadable=1)
    assert status["evaluation"]["final"] is True
