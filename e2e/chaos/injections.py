"""What the kinds of faults do, and for how long."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from e2e import platform_faults, tampering
from e2e.faults import Pod, corrupt_newest_checkpoint
from e2e.previous import Version, exchanged
from e2e.scenarios.drill import Drill
from e2e.slow_api import slow_api
from tools.cluster import Cluster
from tools.waiting import eventually

OPERATOR_AWAY_SECONDS = 70.0
API_AWAY_SECONDS = 20.0
SLOW_API_SECONDS = 40.0
DNS_AWAY_SECONDS = 30.0
UNREACHABLE_SECONDS = 40.0
_BRIEF_SECONDS = 3.0
"""gRPC gives a connection up after 5 without an answer to what it sent."""
_REFUSED_SECONDS = 12.0
_UNSEEN_SECONDS = 5.0
_NOTICED_SECONDS = 60
_REPAIR_SECONDS = 30
_SUSPEND_SECONDS = 90


@dataclass(frozen=True, slots=True)
class Fault:
    """What a kind is given to do its work."""

    drill: Drill
    pod: Pod
    """The pod to hit; the chief where it is no pod that is hit."""
    previous: Version | None
    """The version before, None where it is not available."""

    @property
    def cluster(self) -> Cluster:
        """The cluster of it all."""
        return self.pod.cluster


def on_pod(act: Callable[[Pod], None]) -> Callable[[Fault], None]:
    """Return a fault that needs only the pod."""
    return lambda fault: act(fault.pod)


def on_job(act: Callable[[Drill], None]) -> Callable[[Fault], None]:
    """Return a fault that needs only the job."""
    return lambda fault: act(fault.drill)


def lasting(
    fault: Callable[[Cluster], AbstractContextManager[None]], seconds: float
) -> Callable[[Fault], None]:
    """Return a fault that lasts for so many seconds."""

    def inject(target: Fault) -> None:
        with fault(target.cluster):
            time.sleep(seconds)

    return inject


def delete_by_force(pod: Pod) -> None:
    """Delete the pod without waiting for its node."""
    pod.delete(forced=True)


def corrupt_and_kill(fault: Fault) -> None:
    """Corrupt the newest checkpoint and kill the chief."""
    # One to be corrupted, one to fall back to. Frozen, the chief cannot write a newer one.
    fault.drill.wait_for_checkpoints(2)
    fault.pod.freeze()
    corrupt_newest_checkpoint(fault.cluster, fault.pod.namespace, fault.drill.job)
    fault.pod.kill()


def kill_without_operator(fault: Fault) -> None:
    """Kill the chief, and have no operator for longer than every timer of the job."""
    fault.pod.kill()
    fault.drill.space.wait_for("Running", "False", fault.drill.job, _NOTICED_SECONDS)
    with platform_faults.without_operator(fault.cluster):
        time.sleep(OPERATOR_AWAY_SECONDS)


def delete_under_quota(fault: Fault) -> None:
    """Delete the pod while no pod may be created."""
    with platform_faults.no_pods_allowed(fault.cluster, fault.pod.namespace):
        fault.pod.delete()
        time.sleep(_REFUSED_SECONDS)


def cut_off_briefly(pod: Pod) -> None:
    """Cut the chief off from its servers for less time than it waits for them."""
    pod.cut_off_from_servers(_BRIEF_SECONDS)


def scale_up_without_room(fault: Fault) -> None:
    """Ask for more workers than the nodes have room for, then for as many as before."""
    with platform_faults.no_room(fault.cluster):
        fault.drill.scale(4)
        fault.drill.wait_for_workers(4, _NOTICED_SECONDS)
        fault.drill.wait_for_steps(_NOTICED_SECONDS)
        time.sleep(_REFUSED_SECONDS)
        fault.drill.scale(2)
        fault.drill.wait_for_workers(2, _NOTICED_SECONDS)


def suspend_and_resume(drill: Drill) -> None:
    """Suspend the job in mid-step and resume it; no step that was seen may be lost."""
    drill.suspend()
    drill.wait_for_no_pods(_SUSPEND_SECONDS)
    reached = drill.record.step(drill.job)
    drill.unsuspend()
    drill.wait_for_steps(_SUSPEND_SECONDS)
    start = drill.record.resumes(drill.job)[-1].start
    assert start >= reached, f"suspended at step {reached}, resumed at step {start}"


def exchange_versions(fault: Fault) -> None:
    """Roll out the version before this one, and this one again."""
    assert fault.previous is not None, "the version before is not available here"
    with exchanged(fault.cluster, fault.previous):
        fault.drill.wait_for_steps(_NOTICED_SECONDS)
        time.sleep(_UNSEEN_SECONDS)


def slow(cluster: Cluster) -> AbstractContextManager[None]:
    """Delay and break requests of the operator to the API server."""
    return slow_api(cluster, seconds=5.0, failing=0.1)


def garble_status(drill: Drill) -> None:
    """Write garbage into the job's status."""
    tampering.garble_status(drill.space, drill.job)
    time.sleep(_UNSEEN_SECONDS)


def forge_finished(drill: Drill) -> None:
    """Write the condition Finished while the job trains."""
    tampering.forge_finished(drill.space, drill.job)
    time.sleep(_UNSEEN_SECONDS)


def relabel_attempt(pod: Pod) -> None:
    """Set the label of the pod's attempt to one that never was."""
    tampering.label(pod, "tftraining.dev/attempt", "999")
    time.sleep(_UNSEEN_SECONDS)


def unlabel(pod: Pod) -> None:
    """Remove the label of the pod's job, and put it back."""
    name = "tftraining.dev/job"
    job = pod.read()["metadata"]["labels"][name]
    tampering.label(pod, name, None)
    time.sleep(_UNSEEN_SECONDS)
    tampering.label(pod, name, job)
    time.sleep(_UNSEEN_SECONDS)


def redirect_services(drill: Drill) -> None:
    """Change the selectors of the job's Services; the operator has to mend them."""
    before = tampering.service_selectors(drill.space, drill.job)
    tampering.redirect_services(drill.space, drill.job)
    eventually(
        lambda: tampering.service_selectors(drill.space, drill.job) == before,
        "the selectors of the job's Services are mended",
        _REPAIR_SECONDS,
    )
