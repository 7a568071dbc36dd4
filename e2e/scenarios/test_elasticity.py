"""A job that trains is made larger and smaller, suspended and resumed; nothing of it is counted."""

from e2e.jobs import paced
from e2e.scenarios.drill import Drill
from tools.waiting import eventually

_RESIZE_SECONDS = 120


def scale(drill: Drill, replicas: int) -> None:
    """Scale the workers, and wait until a chief makes steps with just so many."""
    chief = drill.incarnation(drill.pod("chief"))
    drill.space.kubectl("scale", "tftj", drill.job, f"--replicas={replicas}")
    wanted = {drill.pod("worker", index).name for index in range(replicas)}
    eventually(
        lambda: {name for name in drill.space.pods() if "-worker-" in name} == wanted,
        f"the workers {wanted}",
        _RESIZE_SECONDS,
    )
    drill.is_back(drill.pod("chief"), chief, _RESIZE_SECONDS)
    drill.goes_on(_RESIZE_SECONDS)
    assert drill.space.status(drill.job)["replicas"]["worker"] == f"{replicas}/{replicas}"


def test_scaled_suspended_and_resumed(drill: Drill) -> None:
    drill.start(paced(evaluator={}))
    ps = drill.incarnation(drill.pod("ps"))
    first = drill.incarnation(drill.pod("worker", 0))

    scale(drill, 4)
    scale(drill, 1)
    assert drill.incarnation(drill.pod("ps")) == ps
    assert drill.incarnation(drill.pod("worker", 0)) == first

    drill.space.kubectl(
        *("patch", "tftj", drill.job, "--type=merge"),
        *("-p", '{"spec": {"runPolicy": {"suspend": true}}}'),
    )
    eventually(lambda: not drill.space.pods(), "no pod is left", 60)
    assert drill.space.condition("Suspended")["status"] == "True"
    saved = drill.record.samples[drill.job][-1].checkpoint
    drill.space.kubectl(
        *("patch", "tftj", drill.job, "--type=merge"),
        *("-p", '{"spec": {"runPolicy": {"suspend": false}}}'),
    )
    drill.goes_on(_RESIZE_SECONDS)
    assert saved is not None
    assert drill.record.resumes(drill.job)[-1].start >= saved
    drill.ends_well(restarts=0)
