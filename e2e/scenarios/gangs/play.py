"""Two jobs, red and blue, of three pods each, on a cluster with room for four pods."""

import functools
from typing import Any

from e2e.scenarios.space import Space, job
from e2e.slots import SLOT, slots
from tools.waiting import eventually

_Object = dict[str, Any]

Seen = dict[str, tuple[str, ...]]
"""What a user saw: lines by the section of the page."""

_PODS = 3
"""Of a job: a chief, a ps, a worker. There is room for one more."""

_JOBS = ("red", "blue")
_PRIORITIES = {"ps": 3, "chief": 2, "worker": 1}
_PLACED_SECONDS = 60
_TRAINED_SECONDS = 240


def stuck(space: Space) -> Seen:
    """Submit both without gangs: each has two nodes, and waits for the third for ever."""
    for role, value in _PRIORITIES.items():
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        space.apply(
            {**priority, "metadata": {"name": _priority(role)}, "preemptionPolicy": "Never"}
        )
    try:
        # Both ps are tried first, then both chiefs: so it goes wrong each time.
        space.apply(*(_job(name, "None", by_role=True) for name in _JOBS))
        _wait_for_pods(space)
        with slots(space.cluster, _PODS + 1):
            eventually(
                lambda: sum(_all_bound(space)) == _PODS + 1, "the cluster is full", _PLACED_SECONDS
            )
            for name in _JOBS:
                said = functools.partial(_lacks_room, space, name)
                eventually(said, f"{name} says why it waits", _PLACED_SECONDS)
            assert _all_bound(space) == [2, 2], "each holds what the other needs"
            return {"deadlock": _shown(space)}
    finally:
        space.kubectl("delete", "tftj", "--all")
        space.kubectl("delete", "priorityclass", *map(_priority, _PRIORITIES))


def in_turn(space: Space) -> Seen:
    """Submit both with Kubernetes' own gangs: one trains, then the other."""
    space.apply(*(_job(name, "InTree") for name in _JOBS))
    _wait_for_pods(space)
    with slots(space.cluster, _PODS + 1):
        return _trained_in_turn(space)


def _trained_in_turn(space: Space) -> Seen:
    bound = eventually(
        lambda: found if _PODS in (found := _all_bound(space)) else None,
        "one has all of its nodes",
        _PLACED_SECONDS,
    )
    first, second = _JOBS if bound[0] == _PODS else _JOBS[::-1]
    said = "for nodes for all 3 pods: "
    eventually(
        lambda: said in _message(space, second), "the other says what it waits for", _PLACED_SECONDS
    )
    space.wait_for("Running", name=first)
    lines = _shown(space)
    assert _bound(space, second) == 0, "it holds nothing"
    space.wait_for("Succeeded", name=first, seconds=_TRAINED_SECONDS)
    space.wait_for("Succeeded", name=second, seconds=_TRAINED_SECONDS)
    events = [f"{event['reason']}: {event['message']}" for event in space.events(second)]
    return {"gangs": lines, "gang-events": tuple(events)}


def _job(name: str, gang: str, *, by_role: bool = False) -> _Object:
    slot = {SLOT: "1"}
    found = job(name, "--epochs=12", scheduling={"gang": gang})
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {**container["resources"]["requests"], **slot}}
    container["resources"]["limits"] = slot
    if by_role:
        for role in _PRIORITIES:
            spec = {"priorityClassName": _priority(role)}
            found["spec"].setdefault(role, {})["template"] = {"spec": spec}
    return found


def _priority(role: str) -> str:
    return f"gangs-{role}"


def _wait_for_pods(space: Space) -> None:
    """Wait until all exist: the scheduler shall know of both jobs before it places one."""
    eventually(lambda: len(space.pods()) == len(_JOBS) * _PODS, "all pods exist", _PLACED_SECONDS)


def _all_bound(space: Space) -> list[int]:
    return [_bound(space, name) for name in _JOBS]


def _bound(space: Space, name: str) -> int:
    """Count the pods of a job that have a node."""
    pods = space.read("pods")["items"]
    of_job = [pod for pod in pods if pod["metadata"]["name"].startswith(f"{name}-")]
    return sum("nodeName" in pod["spec"] for pod in of_job)


def _lacks_room(space: Space, name: str) -> bool:
    return f"Insufficient {SLOT}" in _message(space, name)


def _message(space: Space, name: str) -> str:
    return str(space.status(name).get("message") or "")


def _shown(space: Space) -> tuple[str, ...]:
    columns = "NAME:.metadata.name,STATE:.status.state,MESSAGE:.status.message"
    table = space.kubectl("get", "tftj", "-o", f"custom-columns={columns}")
    return (f"$ kubectl get tftj -o custom-columns={columns}", *table.splitlines())
