"""Has one job's pods taken away while it trains, and measures what that costs it."""

from dataclasses import dataclass

from e2e.jobs import task_job
from e2e.recording import Recording
from e2e.scenarios.drill import Drill, now
from e2e.scenarios.preemption.ways import GRACE_SECONDS, Way
from tools.waiting import eventually

SAVE_SECONDS = 10
"""Time between two checkpoints."""

_GONE_SECONDS = 90
_MESSAGE_SECONDS = 60
_AGAIN_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Cost:
    """What it cost the job."""

    gone: float
    """Seconds until the chief had saved and its pod was gone."""
    reached: int
    """Step that the chief was known to have reached."""
    resumed: int
    """Step at which the next chief went on."""
    interval: int
    """Steps between two checkpoints."""
    again: float
    """Seconds from when there was room until the job made steps."""
    message: str
    """What the job said while it waited."""
    events: tuple[str, ...]
    """Reasons and messages of its events, in their order."""

    @property
    def lost(self) -> int:
        """Steps that were made in vain."""
        return max(0, self.reached - self.resumed)


def measured(drill: Drill, way: Way) -> Cost:
    """Train a job, take its pods away and let them come back.

    Raises AssertionError if it loses more than what lies behind a checkpoint, or counts a failure.
    """
    pace = ("--epochs=16", "--option=milliseconds=100", f"--checkpoint-seconds={SAVE_SECONDS}")
    job = task_job(drill.job, "paced", *pace, memory="1000Mi")
    with way.prepared(drill, job):
        drill.start(job)
        drill.wait_for_checkpoints(1)
        chief, _ = drill.incarnation(drill.pod("chief"))
        with way.taken(drill):
            eventually(lambda: gone_after(drill.record, chief), "the chief is gone", _GONE_SECONDS)
            message = eventually(lambda: _message(drill, way), "the job says so", _MESSAGE_SECONDS)
        room = now()
        drill.wait_for_steps(_AGAIN_SECONDS, since=room)
        again = now() - room
        status = drill.expect_success(restarts=0)
        events = _events(drill)
    resume = drill.record.resumes(drill.job)[-1]
    cost = Cost(
        gone=gone_after(drill.record, chief) or 0,
        reached=resume.last_step,
        resumed=resume.start,
        interval=resume.interval,
        again=again,
        message=message,
        events=events,
    )
    if (queue := status.get("queue")) is not None:
        assert (queue["evictions"], queue["preemptions"]) == (1, 1), queue
        assert queue["waitSeconds"] > 0, queue
    assert cost.gone < GRACE_SECONDS, f"{cost.gone:.1f} s until the chief had ended"
    assert cost.lost <= cost.interval, f"{cost.lost} steps were lost"
    return cost


def gone_after(record: Recording, pod: str) -> float | None:
    """Return how many seconds after it was told to end the pod of a uid was gone, if it is."""
    changes = [change for change in list(record.pods) if change.uid == pod]
    asked = next((change.at for change in changes if change.leaving), None)
    gone = next((change.at for change in changes if change.kind == "DELETED"), None)
    return gone - asked if asked is not None and gone is not None else None


def _message(drill: Drill, way: Way) -> str | None:
    """Return what `kubectl get tftj -o wide` says of the job once it names what it waits for."""
    status = drill.space.status(drill.job)
    found = str(status.get("message"))
    return f"{status['state']}: {found}" if way.waits in found else None


def _events(drill: Drill) -> tuple[str, ...]:
    events = sorted(drill.space.events(drill.job), key=lambda event: event["eventTime"] or "")
    return tuple(f"{event['reason']}: {event['message']}" for event in events)
