"""Builds the pod that serves a job's TensorBoard logs. Pure.

No port of it is in the cluster's network: it is reached by port-forward only.
"""

from collections.abc import Sequence
from typing import Any

from tftraining import helper_pod

_Object = dict[str, Any]

PORT = 6006
DEADLINE_SECONDS = 8 * 3600
"""Ends the pod of a command that was killed."""

_LOGS = "logs"
_READY = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 2)"


def pod(name: str, job: _Object, pods: Sequence[_Object], image_name: str) -> _Object:
    """Return the pod's manifest. Raises InputError if the job's logs cannot be mounted.

    `job` is the TFTrainingJob, `pods` are its pods, as the API server returns them.
    """
    directory, _ = helper_pod.storage(job, "logs")
    container = {
        # Reachable by port-forward only, and not by other pods.
        "command": ["python3", "-m", "tensorboard.main"],
        "args": [
            f"--logdir={_own_directory(job, directory)}/{_LOGS}",
            "--host=127.0.0.1",
            f"--port={PORT}",
            "--load_fast=false",
        ],
        "readinessProbe": {
            "exec": {"command": ["python3", "-c", _READY]},
            "periodSeconds": 2,
            "timeoutSeconds": 5,
        },
        "resources": {
            "requests": {"cpu": "50m", "memory": "300Mi"},
            "limits": {"cpu": "1", "memory": "1536Mi"},
        },
    }
    purpose = helper_pod.Purpose("tensorboard", "logs", container, DEADLINE_SECONDS)
    return helper_pod.pod(name, job, pods, image_name, purpose)


def _own_directory(job: _Object, directory: str) -> str:
    """Return where the job saves: several jobs may use one volume, each a directory of its own."""
    saved = ((job.get("status") or {}).get("lastCheckpoint") or {}).get("path") or ""
    found = str(saved).rpartition("/")[0]
    return found if found.startswith(f"{directory}/") else directory
