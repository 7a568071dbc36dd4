"""Builds the pod that serves a job's TensorBoard logs. Pure.

It reads the job's checkpoint volume and nothing else: no token, no port in the cluster's network,
and a deadline.
"""

from collections.abc import Sequence
from typing import Any

from tftraining_operator.api.keys import CONTAINER, LABEL_ROLE, Role
from tftraining_operator.api.types import Checkpoint
from tftraining_operator.core.podtemplate import restricted_container, restricted_pod

from tftraining.errors import InputError

_Object = dict[str, Any]

PORT = 6006
DEADLINE_SECONDS = 8 * 3600
"""Ends the pod of a command that was killed."""

_LOGS = "logs"
_VOLUME = "checkpoint"
_DEFAULT_PATH: str = Checkpoint.model_fields["path"].default
_READY = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 2)"


def image(job: _Object, pods: Sequence[_Object]) -> str | None:
    """Return the image that the job trains with; None if pods, templates and status name none."""
    for pod in sorted(pods, key=_is_chief, reverse=True):
        if found := _training_image(pod.get("spec") or {}):
            return found
    templates = (job["spec"].get(role) or {} for role in (Role.CHIEF.value, Role.WORKER.value))
    for holder in (*templates, job["spec"]):
        template = holder.get("template") or {}
        if found := _training_image(template.get("spec") or {}):
            return found
    # The operator's own, which a job that started with it keeps.
    remembered: str | None = (job.get("status") or {}).get("trainerImage")
    return remembered


def pod(name: str, job: _Object, pods: Sequence[_Object], image_name: str) -> _Object:
    """Return the pod's manifest. Raises InputError if the job's logs cannot be mounted.

    `job` is the TFTrainingJob, `pods` are its pods, as the API server returns them.
    """
    chief = next((each for each in pods if _is_chief(each)), None)
    spec = chief["spec"] if chief is not None else _template_spec(job)
    directory, volume = _storage(job)
    container: _Object = {
        "name": "tensorboard",
        "image": image_name,
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
            "limits": {"memory": "1536Mi"},
        },
        "securityContext": restricted_container(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the container
    }
    volumes: list[_Object] = [{"name": "tmp", "emptyDir": {}}]
    if volume is not None:
        volumes.append({"name": _VOLUME, **volume})
        container["volumeMounts"].append(
            {"name": _VOLUME, "mountPath": directory, "readOnly": True}
        )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            # Without the operator's labels, by which it selects the pods of a job.
            "labels": {
                "app.kubernetes.io/name": "tensorboard",
                "app.kubernetes.io/instance": job["metadata"]["name"],
                "app.kubernetes.io/managed-by": "tftj",
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": restricted_pod() | (spec.get("securityContext") or {}),
            "containers": [container],
            "volumes": volumes,
            **_placement(spec, chief, needs_volume=volume is not None),
        },
    }


def _storage(job: _Object) -> tuple[str, _Object | None]:
    """Return the checkpoint directory in the pod, and the volume that holds it."""
    name, checkpoint = job["metadata"]["name"], job["spec"].get("checkpoint") or {}
    if checkpoint.get("uri"):
        return str(checkpoint["uri"]).rstrip("/"), None
    if claim := checkpoint.get("persistentVolumeClaim"):
        # Not read-only as a whole: a ReadWriteOnce volume cannot be mounted so while the chief
        # has it mounted for writing.
        source = {"persistentVolumeClaim": {"claimName": claim["claimName"]}}
        return str(checkpoint.get("path") or _DEFAULT_PATH), source
    if "emptyDir" in checkpoint:
        raise InputError(
            f"the logs of {name} are in its chief's emptyDir, which no other pod can mount: set"
            " spec.checkpoint.persistentVolumeClaim or spec.checkpoint.uri"
        )
    raise InputError(
        f"{name} saves no logs: set spec.checkpoint.persistentVolumeClaim or spec.checkpoint.uri"
    )


def _own_directory(job: _Object, directory: str) -> str:
    """Return where the job saves: several jobs may use one volume, each a directory of its own."""
    saved = ((job.get("status") or {}).get("lastCheckpoint") or {}).get("path") or ""
    found = str(saved).rpartition("/")[0]
    return found if found.startswith(f"{directory}/") else directory


def _placement(spec: _Object, chief: _Object | None, *, needs_volume: bool) -> _Object:
    """Return the fields that let the pod run where the chief does, with the chief's rights."""
    copied = ("imagePullSecrets", "tolerations", "serviceAccountName", "nodeSelector")
    found = {field: spec[field] for field in copied if spec.get(field)}
    node = spec.get("nodeName") if chief is not None and _runs(chief) else None
    if node and needs_volume:
        # A ReadWriteOnce volume is mounted on one node at a time. By affinity, so that the
        # scheduler still reports why if the node has no room.
        by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
        found["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [by_name]}]
                }
            }
        }
    return found


def _template_spec(job: _Object) -> _Object:
    shared = (job["spec"].get("template") or {}).get("spec") or {}
    own = ((job["spec"].get("chief") or {}).get("template") or {}).get("spec") or {}
    return {**shared, **own}


def _training_image(spec: _Object) -> str | None:
    for container in spec.get("containers") or []:
        if container.get("name") == CONTAINER and container.get("image"):
            return str(container["image"])
    return None


def _is_chief(found: _Object) -> bool:
    labels = found["metadata"].get("labels") or {}
    return bool(labels.get(LABEL_ROLE) == Role.CHIEF.value)


def _runs(found: _Object) -> bool:
    return (found.get("status") or {}).get("phase") in ("Pending", "Running")
