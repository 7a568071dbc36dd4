"""What a dead chief leaves in its servers must not kill them, however often chiefs die."""

from e2e.jobs import task_job
from e2e.recording import Change
from e2e.scenarios.drill import Drill

_LOSSES = 5
_RESUME_SECONDS = 240
_KILLED = 137


def test_five_lost_chiefs_and_a_variable_of_400_mb(drill: Drill) -> None:
    # One chief needs 1.5 GB of its ps for this, and each that is killed leaves 0.5 GB behind.
    job = task_job(
        drill.job,
        "large",
        *("--epochs=1000", "--batch-size=32", "--checkpoint-seconds=10", "--keep-checkpoints=1"),
        memory="3Gi",
        worker={"replicas": 1},
    )
    drill.start(job)

    for losses in range(1, _LOSSES + 1):
        chief = drill.pod("chief")
        drill.inject(chief, chief.kill, _RESUME_SECONDS)
        drill.wait_until_resumed(60, restarts=losses)

    servers = [pod for pod in drill.record.pods if pod.label("role") != "chief"]
    assert not {pod.name for pod in servers if was_killed(pod)}
    assert drill.space.condition("Running")["status"] == "True"
    assert all(resume.start > 0 for resume in drill.record.resumes(drill.job)[1:])


def was_killed(pod: Change) -> bool:
    """Whether the pod's process was killed; the reason does not always say that memory ran out."""
    return any(
        state.get("terminated", {}).get("exitCode") == _KILLED
        for status in pod.thing.get("status", {}).get("containerStatuses", [])
        for state in (status.get("state", {}), status.get("lastState", {}))
    )
