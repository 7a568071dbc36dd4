"""Parts of a raw pod that several modules read: container statuses, conditions, volumes.

And words of the cluster in them that several know.
"""

import re
from typing import Any

from tftraining_operator.api import keys

_Object = dict[str, Any]

DEFAULT_SCHEDULER = "default-scheduler"
"""What schedules a pod that names no scheduler."""

STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Why a container waits that nothing keeps from starting."""

_TRAINER = re.compile(r"(?<![\w./-])tftrainer(?![\w/-])")
"""The trainer's module in a command: by itself, in a line for a shell, or with one of its own."""


def condition(pod: _Object, kind: str) -> _Object:
    """Return the condition of a type, {} if it is not there."""
    return _find((pod.get("status") or {}).get("conditions"), "type", kind)


def container_status(pod: _Object) -> _Object:
    """Return the status of the container that trains, {} before there is one."""
    return _find((pod.get("status") or {}).get("containerStatuses"), "name", keys.CONTAINER)


def container_spec(pod: _Object, name: str = keys.CONTAINER) -> _Object:
    """Return the spec of a container or init container, {} if there is none."""
    spec = pod.get("spec") or {}
    return _find(
        [*(spec.get("containers") or []), *(spec.get("initContainers") or [])], "name", name
    )


def all_statuses(pod: _Object) -> list[_Object]:
    """Return the statuses of all containers, in the order in which they start."""
    status = pod.get("status") or {}
    return [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]


def state(container: _Object, kind: str) -> _Object | None:
    """Return a container's state if it is of a kind: `waiting`, `running` or `terminated`."""
    found: _Object | None = (container.get("state") or {}).get(kind)
    return found


def last_end(container: _Object) -> _Object:
    """Return the newest end of a container: now, or before its restart in place; {} if none."""
    before: _Object = (container.get("lastState") or {}).get("terminated") or {}
    return state(container, "terminated") or before


def runs_trainer(pod: _Object) -> bool:
    """Tell whether the container that trains runs our trainer, as its image does by itself."""
    container = container_spec(pod)
    command = container.get("command")
    if not command:
        return True
    return any(_TRAINER.search(str(part)) for part in (*command, *(container.get("args") or ())))


def variable(pod: _Object, name: str) -> str | None:
    """Return a variable of the container that trains; unlike labels, it cannot be edited."""
    found = _find(container_spec(pod).get("env"), "name", name).get("value")
    return found if isinstance(found, str) else None


def memory_limit(pod: _Object, name: str = keys.CONTAINER) -> str | None:
    """Return the memory limit of a container as it was written, None if it has none."""
    limits = (container_spec(pod, name).get("resources") or {}).get("limits") or {}
    return str(limits["memory"]) if limits.get("memory") is not None else None


def claims(pod: _Object) -> list[str]:
    """Return the names of the claims that a pod mounts."""
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in (pod.get("spec") or {}).get("volumes") or []
        if volume.get("persistentVolumeClaim")
    ]


def _find(items: list[_Object] | None, key: str, value: str) -> _Object:
    # A plain loop: a pass over a job of 1,000 pods gets here 16,000 times.
    for item in items or ():
        if item.get(key) == value:
            return item
    return {}
