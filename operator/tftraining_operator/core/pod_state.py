"""What a raw pod is and what it does, judged by its training container; core/observed calls it."""

import re
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import raw_pod
from tftraining_operator.core.environment import ATTEMPT, CLUSTER_WORKERS
from tftraining_operator.core.job import Job
from tftraining_operator.core.roles import traits

_Object = dict[str, Any]

_MOST_DIGITS = 9
_TASK = re.compile(rf"-({'|'.join(Role)})-(0|[1-9][0-9]{{0,5}})")


def task(job: Job, raw: _Object) -> tuple[Role, int, int] | None:
    """Return (role, index, attempt) of a pod of a job, None for one that is none of its tasks.

    They are read from what nobody can edit: the pod's name and its variables. Labels are for
    selectors, and count only where a variable is missing.
    """
    metadata = raw["metadata"]
    name: str = metadata["name"]
    found = _TASK.fullmatch(name, len(job.name)) if name.startswith(job.name) else None
    attempt = raw_pod.variable(raw, ATTEMPT)
    if attempt is None:
        attempt = (metadata.get("labels") or {}).get(keys.LABEL_ATTEMPT, "")
    if found is None or not attempt.isdecimal() or len(attempt) > _MOST_DIGITS:
        return None
    return Role(found[1]), int(found[2]), int(attempt)


def cluster_workers(job: Job, raw: _Object, role: Role) -> str | None:
    """Return the workers of the cluster that a pod was made for, in the form of Job.worker_set.

    The annotation is for pods without the variable: servers, and what an older operator made.
    """
    if traits(job.spec.strategy, role).drives_attempt:
        found = raw_pod.variable(raw, CLUSTER_WORKERS)
        if found is not None:
            return found
    annotation: str | None = (raw["metadata"].get("annotations") or {}).get(keys.ANNOTATION_WORKERS)
    return annotation


def phase(raw: _Object) -> str:
    """Return the pod's phase, where the end of the training container is the pod's."""
    status = raw.get("status") or {}
    said: str = status.get("phase") or "Pending"
    terminated = raw_pod.state(raw_pod.container_status(raw), "terminated")
    # With a reason, the pod as a whole was ended, as by its node: what a container said is no end.
    if terminated is None or (said == "Failed" and status.get("reason")):
        return said
    policy = (raw.get("spec") or {}).get("restartPolicy")
    if terminated.get("exitCode") == 0:
        return said if policy == "Always" else "Succeeded"
    return "Failed" if policy == "Never" else said


def is_ready(raw: _Object) -> bool:
    """Tell whether the training container is ready, whatever sidecars are.

    Only the kubelet writes a container's status. If its node is lost, only the pod's condition
    says so, which is also False while any other container is not ready.
    """
    if not raw_pod.container_status(raw).get("ready"):
        return False
    found = raw_pod.condition(raw, "Ready")
    return found.get("status") == "True" or found.get("reason") == "ContainersNotReady"


def ready_since(raw: _Object) -> str | None:
    """Return when a ready pod became so; where a sidecar hides it, when its container started."""
    found = raw_pod.condition(raw, "Ready")
    if found.get("status") == "True":
        since: str | None = found.get("lastTransitionTime")
    else:
        since = (raw_pod.state(raw_pod.container_status(raw), "running") or {}).get("startedAt")
    return since


def runs_any_container(raw: _Object) -> bool:
    """Tell whether a container of the pod runs, init containers and sidecars included."""
    return any(raw_pod.state(c, "running") is not None for c in raw_pod.all_statuses(raw))


def is_on_its_way(raw: _Object) -> bool:
    """Tell whether a pod starts or runs, and nothing of it has ended, is to end or cannot start."""
    phase = (raw.get("status") or {}).get("phase")
    return (
        phase in ("Pending", "Running")
        and "deletionTimestamp" not in raw["metadata"]
        and not any(_is_in_trouble(each) for each in raw_pod.all_statuses(raw))
    )


def _is_in_trouble(container: _Object) -> bool:
    waiting = raw_pod.state(container, "waiting") or {}
    return bool(raw_pod.last_end(container)) or waiting.get("reason", "") not in raw_pod.STARTING


def addresses(raw: _Object) -> frozenset[str]:
    """Return the IP addresses of a pod."""
    status = raw.get("status") or {}
    found = [status.get("podIP"), *(each.get("ip") for each in status.get("podIPs") or [])]
    return frozenset(ip for ip in found if ip)


def progress_url(job: Job, raw: _Object, role: Role) -> str | None:
    """Return where a running pod serves /progress, None if it serves none."""
    status = raw.get("status") or {}
    address = status.get("podIP")
    if not address or not traits(job.spec.strategy, role).reports_progress:
        return None
    if status.get("phase") != "Running" or "deletionTimestamp" in raw["metadata"]:
        return None
    # By its number, which TFTRAINING_PROGRESS_PORT tells the trainer: a user may name the port.
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{keys.PROGRESS_PORT}/progress"
