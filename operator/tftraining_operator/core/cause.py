"""Why a pod failed, or why it does not start, read from the raw pod."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.core.times import parse

_Object = dict[str, Any]

MESSAGE_LIMIT = 1500
_WAITING_IS_NORMAL = frozenset({"ContainerCreating", "PodInitializing"})
_OOM_EXIT_CODE = 137
_RAN_WELL = timedelta(seconds=30)
# Words of the kubelet that say nothing by themselves.
_EMPTY_WORDS = frozenset({"Error", "Completed", ""})


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason, with what the cluster or the log says about it."""

    reason: str
    message: str = ""
    exit_code: int | None = None
    time: str | None = None


def failure(pod: _Object) -> Cause | None:
    """Return why the training container last ended badly or the pod failed, None if it did not."""
    status = pod.get("status") or {}
    ended = _terminated(container_status(pod))
    if ended is not None and ended.get("exitCode", 0) != 0:
        return _exit_cause(ended, status)
    if status.get("phase") == "Failed":
        return _other_container(status) or Cause(
            reason=_word(status.get("reason") or "Failed"),
            message=_tail(status.get("message") or ""),
            time=None,
        )
    return None


def startup_problem(pod: _Object) -> Cause | None:
    """Return what keeps a pod from running, None if nothing that we know of does."""
    status = pod.get("status") or {}
    if status.get("phase") not in ("Pending", "Running", None):
        return None
    for container in _container_statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason and reason not in _WAITING_IS_NORMAL:
            return _waiting_cause(reason, waiting.get("message") or "", container)
    scheduled = condition(pod, "PodScheduled")
    # The scheduler's own mishaps, such as a lost race for a claim: it tries again at once.
    if scheduled.get("status") != "False" or scheduled.get("reason") == "SchedulerError":
        return None
    return Cause(
        reason=_word(scheduled.get("reason") or "Unschedulable"),
        message=_tail(scheduled.get("message") or ""),
    )


def disruption(pod: _Object) -> Cause | None:
    """Return why the cluster takes the pod away (drain, preemption, eviction), None if not."""
    found = condition(pod, "DisruptionTarget")
    if found.get("status") != "True":
        return None
    return Cause(
        reason=_word(found.get("reason") or "Disrupted"),
        message=_tail(found.get("message") or ""),
        time=found.get("lastTransitionTime"),
    )


def is_in_restart_backoff(pod: _Object) -> bool:
    """Tell whether the kubelet delays a restart of what was no crash at the start.

    Its delay doubles with every restart up to 5 minutes, however long the container had run; a
    new pod starts at once.
    """
    container = container_status(pod)
    waiting = (container.get("state") or {}).get("waiting") or {}
    ended = (container.get("lastState") or {}).get("terminated") or {}
    if waiting.get("reason") != "CrashLoopBackOff":
        return False
    if not ended.get("startedAt") or not ended.get("finishedAt"):
        return False
    return parse(ended["finishedAt"]) - parse(ended["startedAt"]) >= _RAN_WELL


def condition(pod: _Object, kind: str) -> _Object:
    """Return the condition of a type, {} if it is not there."""
    for found in (pod.get("status") or {}).get("conditions") or []:
        if found.get("type") == kind:
            known: _Object = found
            return known
    return {}


def container_status(pod: _Object) -> _Object:
    """Return the status of the container that trains, {} before there is one."""
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        if container.get("name") == keys.CONTAINER:
            found: _Object = container
            return found
    return {}


def _terminated(container: _Object) -> _Object | None:
    """Return the newest end of a container: now, or before its restart in place."""
    ended: _Object | None = (container.get("state") or {}).get("terminated") or (
        container.get("lastState") or {}
    ).get("terminated")
    return ended


def _exit_cause(ended: _Object, status: _Object) -> Cause:
    code = ended.get("exitCode")
    given = ended.get("reason") or ""
    reason = given if given not in _EMPTY_WORDS else "ExitCode"
    if status.get("reason") == "Evicted":
        reason = "Evicted"
    message = ended.get("message") or status.get("message") or ""
    if reason == "ExitCode" and code == _OOM_EXIT_CODE and not message:
        # Measured: 6 of 40 OOM kills were reported without the word.
        message = "killed by SIGKILL: out of memory, or ended by the node"
    return Cause(
        reason=_word(reason), message=_tail(message), exit_code=code, time=ended.get("finishedAt")
    )


def _waiting_cause(reason: str, message: str, container: _Object) -> Cause:
    ended = _terminated(container)
    image = container.get("image") or ""
    if ended is not None and reason == "CrashLoopBackOff":
        return Cause(
            reason=reason,
            message=_tail(ended.get("message") or message),
            exit_code=ended.get("exitCode"),
            time=ended.get("finishedAt"),
        )
    # The kubelet alternates between the two words; one cause must read as one.
    reason = {"ErrImagePull": "ImagePullBackOff"}.get(reason, reason)
    if reason == "ImagePullBackOff":
        message = f"image {image} cannot be pulled: check its name and tag, and imagePullSecrets"
    elif image and image not in message and "Image" in reason:
        message = f"image {image}: {message}"
    return Cause(reason=_word(reason), message=_tail(message))


def _other_container(status: _Object) -> Cause | None:
    for container in _container_statuses(status):
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode", 0) != 0:
            cause = _exit_cause(ended, status)
            message = f"container {container.get('name')}: {cause.message}".rstrip(": ")
            return Cause(cause.reason, message, cause.exit_code, cause.time)
    return None


def _container_statuses(status: _Object) -> list[_Object]:
    return [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]


def _tail(message: str) -> str:
    """Keep the end: an error's last lines say what happened."""
    text = message.strip()
    return text if len(text) <= MESSAGE_LIMIT else "…" + text[-MESSAGE_LIMIT:]


def _word(reason: str) -> str:
    return reason[:63]
