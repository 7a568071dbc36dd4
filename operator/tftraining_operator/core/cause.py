"""Why a pod failed, or why the cluster takes it away, read from the raw pod.

core/startup says why one does not start. core/observed calls both, and bounds their times, which
come from the clocks of nodes.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core import raw_pod
from tftraining_operator.core.error_text import LIMIT, error_text, telling_line
from tftraining_operator.core.text import one_line, printable
from tftraining_operator.core.times import parse

_Object = dict[str, Any]

OOM_KILLED = "OOMKilled"
_LONGEST_READ = 4 * LIMIT
"""Characters of a message of the cluster that are looked at: looking costs time for each pod."""

_REPORT = '{"version":'
"""How a progress report begins: a process that ended after its last one could leave no cause."""
_RAN_WELL = timedelta(seconds=30)
_SIGKILL, _SIGTERM = 137, 143
# Words of the kubelet that say nothing by themselves.
_EMPTY_WORDS = frozenset({"Error", "Completed", ""})

# The kubelet's reasons for refusing a pod that the scheduler has given it; after a restart, as of
# its node, also one that ran there before. OutOfcpu and the like are prefixes. None of them says
# anything about the pod that holds on another node or later.
_REFUSED_BY_KUBELET = re.compile(
    "OutOf|PodTopologySpread|(NodeAffinity|NodeName|NodePorts|NodeResourcesFit|NodeUnschedulable"
    "|TaintToleration|InvalidNodeInfo|TopologyAffinityError|UnexpectedAdmissionError"
    "|UnexpectedPredicateFailureType|VolumeAttachmentLimitExceeded)$"
)
# And for ending one that may have run.
_ENDED_BY_NODE = frozenset({"NodeShutdown", "Shutdown", "Terminated", "Preempting", "NodeLost"})
_EVICTED = "Evicted"
_STATUS_UNKNOWN = "ContainerStatusUnknown"
# What the kubelet, and containerd, say of a container that was gone when they came back with their
# node. They make up its exit code.
_ENDED_UNSEEN = frozenset({_STATUS_UNKNOWN, "Unknown"})
# The scheduler adds to its words that preempting others would not help, on none of the nodes.
_NO_PREEMPTION = re.compile(
    r"(?: no new claims to deallocate,)? preemption: 0/(\d+) nodes are available:"
    r" \1 Preemption is not helpful for scheduling\.?$"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason, with what the cluster or the log says about it."""

    reason: str
    message: str = ""
    exit_code: int | None = None
    time: str | None = None
    is_wait: bool = False
    """Whether it may be no more than slow: told where the pod is waited for, but no failure."""


def failure(pod: _Object) -> Cause | None:
    """Return why the training container last ended badly or the pod failed, None if it did not."""
    status = pod.get("status") or {}
    ended = raw_pod.last_end(raw_pod.container_status(pod))
    if ended.get("exitCode", 0) != 0:
        return exit_cause(pod, ended)
    if status.get("phase") != "Failed":
        return None
    of_pod = Cause(
        reason=word(status.get("reason") or Reason.FAILED),
        message=cluster_text(status.get("message") or ""),
    )
    # What ended a pod as a whole also ended its init containers and sidecars.
    return of_pod if status.get("reason") else _other_container(pod) or of_pod


def disruption(pod: _Object) -> Cause | None:
    """Return why the cluster takes the pod away: drain, preemption, eviction, refused by its node.

    Also that its node went away under it and came back. None if it does not.
    """
    found = raw_pod.condition(pod, "DisruptionTarget")
    if found.get("status") == "True":
        return Cause(
            reason=word(found.get("reason") or Reason.DISRUPTED),
            message=cluster_text(found.get("message") or ""),
            time=found.get("lastTransitionTime"),
        )
    status = pod.get("status") or {}
    reason = _nodes_doing(pod) if status.get("phase") == "Failed" else ""
    if not reason:
        return None
    ended = raw_pod.last_end(raw_pod.container_status(pod))
    return Cause(
        reason=word(reason),
        message=cluster_text(status.get("message") or ""),
        time=ended.get("finishedAt")
        or status.get("startTime")
        or pod["metadata"].get("creationTimestamp"),
    )


def is_in_restart_backoff(pod: _Object) -> bool:
    """Tell whether the kubelet delays a restart of what was no crash at the start.

    Its delay doubles with every restart up to 5 minutes, however long the container had run; a
    new pod starts at once.
    """
    container = raw_pod.container_status(pod)
    ended = (container.get("lastState") or {}).get("terminated") or {}
    waiting = raw_pod.state(container, "waiting") or {}
    if waiting.get("reason") != "CrashLoopBackOff":
        return False
    if not ended.get("startedAt") or not ended.get("finishedAt"):
        return False
    return parse(ended["finishedAt"]) - parse(ended["startedAt"]) >= _RAN_WELL


def exit_cause(pod: _Object, ended: _Object) -> Cause:
    """Return why the training container ended badly."""
    status = pod.get("status") or {}
    code, given = ended.get("exitCode"), ended.get("reason") or ""
    # Where its node ended the pod as a whole, such as for the pod's own activeDeadlineSeconds, the
    # log knows of a SIGTERM at most.
    of_pod = status.get("reason") if status.get("phase") == "Failed" else None
    reason = Reason.EXIT_CODE if given in _EMPTY_WORDS else given
    return Cause(
        reason=word(of_pod or reason),
        message=cluster_text(status.get("message") or "")
        if of_pod
        else _exit_message(pod, keys.CONTAINER, ended),
        exit_code=code,
        time=ended.get("finishedAt"),
    )


def other_exit_message(pod: _Object, container: _Object, ended: _Object) -> str:
    """Return how a container that does not train ended badly, such as an init container."""
    name = str(container.get("name"))
    inits = (pod.get("status") or {}).get("initContainerStatuses") or []
    kind = "init container" if container in inits else "container"
    said = _exit_message(pod, name, ended)
    if ended.get("reason") == OOM_KILLED:
        return said
    line = telling_line(said)
    return f"{kind} {name} failed: exit code {ended.get('exitCode')}" + (
        f": {line}" if line else ""
    )


def cluster_text(message: str) -> str:
    """Return what the scheduler or the kubelet says, fit to be shown."""
    # Of what is longer, the end is shown.
    message = message[-_LONGEST_READ:]
    # The scheduler appends what its last plugin says, which is mostly a bare "not found".
    text = _NO_PREEMPTION.sub("", printable(message).strip())
    text = re.sub(r"\bnot found[.:;,]+ not found\b", "not found", text)
    text = re.sub(r"\. not found\.?$", ".", text)
    return text if len(text) <= LIMIT else "…" + text[-LIMIT + 1 :]


def word(reason: str) -> str:
    """Return a reason as a status may hold it."""
    return one_line(reason, 63)


def _nodes_doing(pod: _Object) -> str:
    """Return the reason for which its node ended or refused a failed pod, "" if it did not."""
    reason: str = (pod.get("status") or {}).get("reason") or ""
    ended = raw_pod.state(raw_pod.container_status(pod), "terminated") or {}
    is_unseen = ended.get("reason") in _ENDED_UNSEEN
    if not reason:
        return _STATUS_UNKNOWN if is_unseen else ""
    if _REFUSED_BY_KUBELET.match(reason):
        # What failed by itself, before its kubelet was restarted, has failed.
        is_own = not is_unseen and ended.get("exitCode", 0) not in (0, _SIGKILL, _SIGTERM)
        return "" if is_own else reason
    # One that ran was evicted for what it used; for any other cause it would be a DisruptionTarget.
    refused = reason == _EVICTED and not _has_run(pod)
    return reason if refused or reason in _ENDED_BY_NODE else ""


def _has_run(pod: _Object) -> bool:
    return any(
        raw_pod.last_end(found) or raw_pod.state(found, "running") is not None
        for found in raw_pod.all_statuses(pod)
    )


def _other_container(pod: _Object) -> Cause | None:
    """Return which other container failed; its exit code is not one that the trainer defines."""
    for container in raw_pod.all_statuses(pod):
        ended = raw_pod.state(container, "terminated") or {}
        if ended.get("exitCode", 0) != 0:
            oom = ended.get("reason") == OOM_KILLED
            return Cause(
                reason=OOM_KILLED if oom else Reason.CONTAINER_FAILED,
                message=other_exit_message(pod, container, ended),
                time=ended.get("finishedAt"),
            )
    return None


def _exit_message(pod: _Object, name: str, ended: _Object) -> str:
    """Say why a container ended; after SIGKILL never by its log, which cannot know."""
    if ended.get("reason") == OOM_KILLED:
        return _out_of_memory(pod, name)
    probe = _liveness_probe(pod, name)
    if ended.get("exitCode") == _SIGKILL:
        suspect = f"its liveness probe ({probe}) failed, " if probe else ""
        return (
            f"killed (SIGKILL): {suspect}it ran out of memory, or something on its node killed it"
        )
    message = ended.get("message") or ""
    said = "" if message.startswith(_REPORT) else error_text(message)
    if ended.get("exitCode") == _SIGTERM and probe and not _is_being_ended(pod):
        cause = (
            f"terminated (SIGTERM), probably because its liveness probe ({probe}) failed; correct"
            " livenessProbe, or raise its failureThreshold"
        )
        return f"{cause}.\n{said}".strip()
    return said


def _out_of_memory(pod: _Object, name: str) -> str:
    if (limit := raw_pod.memory_limit(pod, name)) is not None:
        return (
            f"out of memory: container {name} exceeded its memory limit of {limit}; raise"
            " resources.limits.memory"
        )
    return (
        f"out of memory: container {name} has no memory limit, so its node ran out of memory; set"
        " resources.requests.memory and resources.limits.memory to what it needs"
    )


def _liveness_probe(pod: _Object, name: str) -> str:
    """Return what a container's liveness probe asks, "" if it has none.

    The status of a container does not say that the kubelet killed it for its probe.
    """
    probe = raw_pod.container_spec(pod, name).get("livenessProbe") or {}
    for kind in ("httpGet", "tcpSocket", "grpc", "exec"):
        if kind in probe:
            asked = probe[kind] or {}
            port = f" port {asked['port']}" if "port" in asked else ""
            return f"{kind}{port}{' ' + asked['path'] if asked.get('path') else ''}"
    return ""


def _is_being_ended(pod: _Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] or disruption(pod) is not None
