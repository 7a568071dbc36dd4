"""Jobs that live long enough for faults: the digits at a pace, with checkpoints every second."""

from typing import Any

import yaml

from e2e.install import ROOT

_Object = dict[str, Any]

STEPS_AN_EPOCH = 270
"""Of the small digits: 1437 examples, 12 times, in batches of 64."""

_MOUNT = "/tasks"


def tasks() -> _Object:
    """Return the ConfigMap with the tasks."""
    found: _Object = yaml.safe_load((ROOT / "e2e/tasks.yaml").read_text())
    return found


def claim(name: str) -> _Object:
    """Return a claim for a job's checkpoints."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def task_job(name: str, task: str, *arguments: str, memory: str, **spec: Any) -> _Object:  # noqa: ANN401
    """Return a job for one of the tasks, with checkpoints in the claim of its name."""
    container = {
        "name": "tensorflow",
        "args": [
            f"--task={_MOUNT}/{task}.py",
            *("--checkpoint-seconds=1", "--log-seconds=2"),
            *arguments,
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "300Mi"}, "limits": {"memory": memory}},
        "volumeMounts": [{"name": "tasks", "mountPath": _MOUNT}],
    }
    volumes = [{"name": "tasks", "configMap": {"name": "tasks"}}]
    return {
        "apiVersion": "tftraining.dev/v1alpha1",
        "kind": "TFTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"containers": [container], "volumes": volumes}},
            "worker": {"replicas": 2},
            "ps": {},
            "checkpoint": {"persistentVolumeClaim": {"claimName": name}},
            "runPolicy": {"backoffLimit": 20},
            **spec,
        },
    }


def paced(
    name: str = "mnist",
    *,
    epochs: int = 8,
    milliseconds: int = 200,
    read_milliseconds: int = 0,
    **spec: Any,  # noqa: ANN401 - YAML
) -> _Object:
    """Return a job of which each worker makes few steps a second until it is to hurry."""
    options = {"milliseconds": milliseconds, "read_milliseconds": read_milliseconds}
    arguments = (f"--epochs={epochs}", *(f"--option={o}={n}" for o, n in options.items()))
    return task_job(name, "paced", *arguments, memory="1000Mi", **spec)


def endless(name: str = "mnist", *arguments: str, **spec: Any) -> _Object:  # noqa: ANN401 - YAML
    """Return a job of one worker that trains at a pace until it is deleted.

    For what happens beside a training: it leaves the processor to others. Its checkpoints are in
    the chief's own folder.
    """
    given = ("--epochs=1000", "--option=milliseconds=100", "--checkpoint-seconds=60", *arguments)
    defaults = {"worker": {"replicas": 1}, "checkpoint": {"emptyDir": {}}}
    return task_job(name, "paced", *given, memory="1000Mi", **(defaults | spec))


def stalled() -> _Object:
    """Return the job `stalled`: one pod, whose first step takes ten minutes, and may."""
    arguments = ("--option=milliseconds=300000", "--stall-seconds=3600")
    found = endless("stalled", *arguments, strategy="Mirrored")
    for role in ("worker", "ps"):
        del found["spec"][role]
    return found
