"""What keeps a pod from running: scheduling, volumes, init containers, images, crash loops."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tftraining_operator.api.reasons import Reason
from tftraining_operator.core import raw_pod
from tftraining_operator.core.advice import with_advice
from tftraining_operator.core.cause import (
    Cause,
    cluster_text,
    exit_cause,
    other_exit_message,
    word,
)
from tftraining_operator.core.naming import join_names
from tftraining_operator.core.times import parse

_Object = dict[str, Any]

_SLOW = timedelta(seconds=10)
"""What takes longer than this is named, though it may still end well."""


@dataclass(frozen=True, slots=True)
class Startup:
    """Why a pod does not run yet."""

    cause: Cause | None = None
    recheck_at: datetime | None = None
    """When there may be a problem though nothing about the pod will have changed."""


_RUNS = Startup()


def startup(pod: _Object, now: datetime) -> Startup:
    """Return what keeps a pod's training container from running, as far as the pod tells."""
    if (pod.get("status") or {}).get("phase") not in ("Pending", "Running", None):
        return _RUNS
    container = raw_pod.container_status(pod)
    waiting = raw_pod.state(container, "waiting")
    if waiting is not None and waiting.get("reason", "") not in raw_pod.STARTING:
        return Startup(_waiting_cause(pod, container, waiting))
    if container and waiting is None:
        return _RUNS
    scheduled = raw_pod.condition(pod, "PodScheduled")
    for stage in (_initializing, _scheduling, _mounting):
        if (found := stage(pod, scheduled, now)) is not None:
            return found
    return _RUNS


def _waiting_cause(pod: _Object, container: _Object, waiting: _Object) -> Cause:
    reason, message = waiting["reason"], waiting.get("message") or ""
    ended = raw_pod.last_end(container)
    if ended and reason == "CrashLoopBackOff":
        cause = exit_cause(pod, ended)
        return Cause(reason, cause.message or cluster_text(message), cause.exit_code, cause.time)
    return Cause(*_not_started(container, reason, message))


def _not_started(container: _Object, reason: str, message: str) -> tuple[str, str]:
    """Return reason and message of a container that the kubelet cannot start."""
    image = container.get("image") or ""
    # The kubelet alternates between the two words; one cause must read as one.
    reason = {"ErrImagePull": "ImagePullBackOff"}.get(reason, reason)
    if reason == "ImagePullBackOff":
        message = f"image {image} cannot be pulled: check its name and tag, and imagePullSecrets"
    elif image and image not in message and "Image" in reason:
        message = f"image {image}: {message}"
    return word(reason), with_advice(cluster_text(message))


def _initializing(pod: _Object, _scheduled: _Object, now: datetime) -> Startup | None:
    """Return what the first init container or native sidecar that has not done its part does."""
    for container in (pod.get("status") or {}).get("initContainerStatuses") or []:
        name = container.get("name")
        is_sidecar = raw_pod.container_spec(pod, str(name)).get("restartPolicy") == "Always"
        ended, running = raw_pod.last_end(container), raw_pod.state(container, "running")
        waiting = raw_pod.state(container, "waiting")
        if running is not None:
            if is_sidecar and container.get("started"):
                continue
            what = f"sidecar {name} to start" if is_sidecar else f"init container {name}"
            log = f"kubectl logs {pod['metadata']['name']} -c {name}"
            cause = Cause("PodInitializing", f"waiting for {what} ({log})")
            return _once_slow(cause, running.get("startedAt"), now)
        if ended.get("exitCode", 0) != 0:
            return Startup(
                Cause(
                    Reason.INIT_CONTAINER_FAILED,
                    other_exit_message(pod, container, ended),
                    time=ended.get("finishedAt"),
                )
            )
        if waiting is not None and waiting.get("reason", "") not in raw_pod.STARTING:
            reason, message = _not_started(container, waiting["reason"], waiting.get("message", ""))
            return Startup(Cause(reason, f"init container {name}: {message}"))
        if waiting is not None:
            return None
    return None


def _scheduling(pod: _Object, scheduled: _Object, now: datetime) -> Startup | None:
    spec = pod.get("spec") or {}
    scheduler = spec.get("schedulerName") or raw_pod.DEFAULT_SCHEDULER
    if not scheduled:
        if spec.get("nodeName") or scheduler == raw_pod.DEFAULT_SCHEDULER:
            return None
        message = f"scheduler {scheduler} has not scheduled it; check spec.schedulerName"
        return _once_slow(
            Cause(Reason.NOT_SCHEDULED, message), pod["metadata"].get("creationTimestamp"), now
        )
    # The scheduler's own mishaps, such as a lost race for a claim: it tries again at once.
    if scheduled.get("status") != "False" or scheduled.get("reason") == "SchedulerError":
        return None
    reason = scheduled.get("reason") or "Unschedulable"
    message = cluster_text(scheduled.get("message") or "")
    if reason == "SchedulingGated":
        gates = [str(gate.get("name")) for gate in spec.get("schedulingGates") or []]
        message = message or f"waiting until the scheduling gate {join_names(gates)} is removed"
    elif "unbound immediate PersistentVolumeClaim" in message and (names := raw_pod.claims(pod)):
        message += (
            f" PersistentVolumeClaim {join_names(names)} has no volume: check its storage class"
            f" (kubectl describe pvc {names[0]})"
        )
    return Startup(Cause(word(reason), with_advice(message)))


def _mounting(pod: _Object, scheduled: _Object, now: datetime) -> Startup | None:
    """Return what a pod waits for that has a node, but neither its volumes nor its network."""
    sandbox = raw_pod.condition(pod, "PodReadyToStartContainers")
    if scheduled.get("status") != "True" or sandbox.get("status") != "False":
        return None
    needed = list(_needed_objects(pod))
    message = "its volumes and network are not ready" + (
        f": check that {join_names(needed)} exist{'s' if len(needed) == 1 else ''}"
        if needed
        else f" on node {(pod.get('spec') or {}).get('nodeName')}"
    )
    return _once_slow(Cause("ContainerCreating", message), scheduled.get("lastTransitionTime"), now)


def _needed_objects(pod: _Object) -> Iterator[str]:
    """Yield the objects without which the kubelet cannot mount the pod's volumes."""
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
        for source in sources:
            for kind, field, key in (
                ("ConfigMap", "configMap", "name"),
                ("Secret", "secret", "name" if source is not volume else "secretName"),
                ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
            ):
                given = source.get(field) or {}
                if given.get(key) and not given.get("optional"):
                    yield f"{kind} {given[key]}"


def _once_slow(cause: Cause, since: str | None, now: datetime) -> Startup:
    """Return a cause that counts only when it has lasted, by a clock that may be another's."""
    began = min(parse(since), now) if since else now
    due = began + _SLOW
    return Startup(replace(cause, is_wait=True)) if due <= now else Startup(recheck_at=due)
