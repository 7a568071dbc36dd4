"""What people and other controllers do to a job's objects: its status, labels and Services."""

import json
from typing import Any

from e2e.faults import Pod
from e2e.scenarios.space import Space

_Object = dict[str, Any]

_GARBAGE: _Object = {
    "startTime": "garbage",
    "completionTime": "junk",
    "progress": {"stepsPerSecond": "fast", "updatedAt": "9999-12-31T23:59:59Z"},
    "lastFailure": {
        "role": "nobody",
        "index": 0,
        "pod": "none",
        "reason": "Forged",
        "time": "yesterday",
    },
}


def garble_status(space: Space, job: str) -> None:
    """Write values into a job's status that no operator writes."""
    _patch_status(space, job, {"status": _GARBAGE})


def forge_finished(space: Space, job: str) -> None:
    """Add the condition Finished to a job that runs."""
    conditions = [c for c in space.status(job)["conditions"] if c["type"] != "Finished"]
    forged = {"type": "Finished", "status": "True", "reason": "Forged", "message": "it is not"}
    forged["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    conditions.append({**forged, "observedGeneration": 1})
    _patch_status(space, job, {"status": {"conditions": conditions}})


def label(pod: Pod, name: str, value: str | None) -> None:
    """Set one of the operator's labels on a pod; None removes it."""
    change = f"{name}-" if value is None else f"{name}={value}"
    pod.cluster.kubectl("-n", pod.namespace, "label", "pod", pod.name, change, "--overwrite")


def redirect_services(space: Space, job: str) -> None:
    """Let the selectors of the job's Services match no pod."""
    change = json.dumps({"spec": {"selector": {"tftraining.dev/job": "another"}}})
    for name in service_selectors(space, job):
        space.kubectl("patch", "service", name, "--type=merge", "-p", change)


def service_selectors(space: Space, job: str) -> dict[str, _Object]:
    """Read the selectors of the job's Services by their names."""
    found = json.loads(
        space.kubectl("get", "services", "-l", f"tftraining.dev/job={job}", "-o", "json")
    )
    return {item["metadata"]["name"]: item["spec"]["selector"] for item in found["items"]}


def _patch_status(space: Space, job: str, change: _Object) -> None:
    patch = ("patch", f"tftj/{job}", "--subresource=status", "--type=merge")
    space.kubectl(*patch, "-p", json.dumps(change))
