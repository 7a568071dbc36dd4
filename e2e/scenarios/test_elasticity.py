"""A job that trains is scaled, suspended and resumed; none of it is counted or costs steps."""

from collections.abc import Callable

import pytest

from e2e.jobs import paced
from e2e.platform_faults import no_room
from e2e.recording import Change
from e2e.scenarios.drill import Drill, now
from tools.waiting import eventually

_RESIZE_SECONDS = 120
_SUSPEND_SECONDS = 60


def scale(drill: Drill, replicas: int) -> None:
    """Scale the workers, and wait until a chief makes steps with just so many."""
    chief = drill.incarnation(drill.pod("chief"))
    drill.scale(replicas)
    drill.wait_for_workers(replicas, _RESIZE_SECONDS)
    drill.wait_until_back(drill.pod("chief"), chief, _RESIZE_SECONDS)
    drill.wait_for_steps(_RESIZE_SECONDS)
    assert drill.space.status(drill.job)["replicas"]["worker"] == f"{replicas}/{replicas}"


def first(drill: Drill, role: str, since: float, holds: Callable[[Change], bool]) -> float:
    """Return when something first held for a pod of a role after a moment."""
    return next(
        change.at
        for change in drill.record.pods
        if change.at >= since and change.label("role") == role and holds(change)
    )


def test_scaled_suspended_and_resumed(drill: Drill) -> None:
    drill.start(paced(evaluator={}))
    ps = drill.incarnation(drill.pod("ps"))
    worker = drill.incarnation(drill.pod("worker", 0))

    scale(drill, 4)
    scale(drill, 1)
    assert drill.incarnation(drill.pod("ps")) == ps
    assert drill.incarnation(drill.pod("worker", 0)) == worker

    began = now()
    drill.suspend()
    drill.wait_for_no_pods(_SUSPEND_SECONDS)
    assert drill.space.condition("Suspended")["status"] == "True"
    chief_ended = first(drill, "chief", began, lambda pod: not pod.started)
    assert chief_ended <= first(drill, "ps", began, lambda pod: pod.leaving)
    reached = drill.record.step(drill.job)
    drill.unsuspend()
    drill.wait_for_steps(_RESIZE_SECONDS)
    assert drill.record.resumes(drill.job)[-1].start >= reached
    drill.expect_success(restarts=0)


@pytest.mark.alone
def test_scaled_up_without_room_it_trains_on_with_the_workers_that_it_has(drill: Drill) -> None:
    drill.start(paced())
    before = {name: change.uid for name, change in drill.pods().items()}
    began = now()

    with no_room(drill.space.cluster):
        drill.scale(4)
        drill.wait_for_workers(4, _RESIZE_SECONDS)
        eventually(
            lambda: drill.space.status(drill.job)["replicas"]["worker"] == "2/4",
            "two of four workers are ready",
            _RESIZE_SECONDS,
        )
        drill.wait_for_steps(_RESIZE_SECONDS)
        drill.expect_always_running(began)
        assert {n: c.uid for n, c in drill.pods().items() if n in before} == before
        drill.scale(2)
        drill.wait_for_workers(2, _RESIZE_SECONDS)
    drill.wait_for_steps(_RESIZE_SECONDS)
    assert {name: change.uid for name, change in drill.pods().items()} == before
    assert drill.space.status(drill.job)["restarts"] == 0
