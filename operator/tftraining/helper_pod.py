"""Builds a short-lived pod that reads a job's checkpoint directory. Pure.

`tftj tensorboard` and `get_model` use one each. It mounts the job's checkpoint volume read-only and
nothing else, has no token, and ends by a deadline if the process that made it is killed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tftraining_operator.api.keys import CONTAINER, LABEL_ROLE, Role
from tftraining_operator.api.types import Checkpoint
from tftraining_operator.core import raw_pod
from tftraining_operator.core.podtemplate import restricted_container, restricted_pod

from tftraining.errors import InputError

_Object = dict[str, Any]

_VOLUME = "checkpoint"
_DEFAULT_PATH: str = Checkpoint.model_fields["path"].default
_START_FAILURES = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
)


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a helper pod is for."""

    app: str
    """Name of the container, and the label app.kubernetes.io/name."""
    what: str
    """What it reads, for messages: logs or model."""
    container: _Object
    """The fields of its container that are its own."""
    deadline: int
    """Seconds after which the pod ends by itself."""
    metadata: _Object = field(default_factory=dict)


def image(job: _Object, pods: Sequence[_Object]) -> str | None:
    """Return the image that the job trains with; None if pods, templates and status name none."""
    if (container := next(_training_containers(job, pods), None)) is not None:
        return str(container["image"])
    # The operator's own, which a job that started with it keeps.
    remembered: str | None = (job.get("status") or {}).get("trainerImage")
    return remembered


def pod(
    name: str, job: _Object, pods: Sequence[_Object], image_name: str, purpose: Purpose
) -> _Object:
    """Return the pod's manifest. Raises InputError if the job's directory cannot be mounted.

    `job` is the TFTrainingJob, `pods` are its pods, as the API server returns them.
    """
    chief = next((each for each in pods if _is_chief(each)), None)
    spec = chief["spec"] if chief is not None else _template_spec(job)
    directory, volume = storage(job, purpose.what)
    container: _Object = {
        "name": purpose.app,
        "image": image_name,
        **_pull_policy(job, pods, image_name),
        "securityContext": restricted_container(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the container
        **purpose.container,
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
                "app.kubernetes.io/name": purpose.app,
                "app.kubernetes.io/instance": job["metadata"]["name"],
                "app.kubernetes.io/managed-by": "tftj",
            },
            **purpose.metadata,
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": purpose.deadline,
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": restricted_pod() | (spec.get("securityContext") or {}),
            "containers": [container],
            "volumes": volumes,
            **_placement(spec, chief, needs_volume=volume is not None),
        },
    }


def storage(job: _Object, what: str) -> tuple[str, _Object | None]:
    """Return the checkpoint directory in the pod, and the volume that holds it, None for a URI.

    Raises InputError if no other pod can read `what` the job saves.
    """
    name, checkpoint = job["metadata"]["name"], job["spec"].get("checkpoint") or {}
    if checkpoint.get("uri"):
        return str(checkpoint["uri"]).rstrip("/"), None
    if claim := checkpoint.get("persistentVolumeClaim"):
        # Not read-only as a whole: a ReadWriteOnce volume cannot be mounted so while the chief
        # has it mounted for writing.
        source = {"persistentVolumeClaim": {"claimName": claim["claimName"]}}
        return str(checkpoint.get("path") or _DEFAULT_PATH), source
    fix = "set spec.checkpoint.persistentVolumeClaim or spec.checkpoint.uri"
    if "emptyDir" in checkpoint:
        raise InputError(
            f"{name} saves its {what} in its chief's emptyDir, which no other pod can mount: {fix}"
        )
    raise InputError(f"{name} saves no {what}: {fix}")


def start_failure(pod: _Object) -> str | None:
    """Return why a pod will not start by itself; None if it still may."""
    reason = not_ready_reason(pod)
    return reason if reason.startswith(_START_FAILURES) else None


def not_ready_reason(pod: _Object) -> str:
    """Return why a pod is not ready, "" if its status has no reason."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return f"{waiting['reason']}: {waiting.get('message') or ''}".rstrip(": ")
    scheduled = raw_pod.condition(pod, "PodScheduled")
    return str(scheduled.get("message") or "") if scheduled.get("status") == "False" else ""


def is_ready(pod: _Object) -> bool:
    """Tell whether a pod is ready."""
    return bool(raw_pod.condition(pod, "Ready").get("status") == "True")


def has_ended(pod: _Object) -> bool:
    """Tell whether the containers of a pod have ended."""
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


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


def _training_containers(job: _Object, pods: Sequence[_Object]) -> Iterator[_Object]:
    """Yield the containers that train and name their image, of pods first, then of templates."""
    for pod in sorted(pods, key=_is_chief, reverse=True):
        yield from _with_image(pod.get("spec") or {})
    templates = (job["spec"].get(role) or {} for role in (Role.CHIEF.value, Role.WORKER.value))
    for holder in (*templates, job["spec"]):
        yield from _with_image((holder.get("template") or {}).get("spec") or {})


def _with_image(spec: _Object) -> Iterator[_Object]:
    for container in spec.get("containers") or []:
        if container.get("name") == CONTAINER and container.get("image"):
            yield container


def _pull_policy(job: _Object, pods: Sequence[_Object], image_name: str) -> _Object:
    """Return the imagePullPolicy that the job has for an image, {} if it says none.

    An image that is only on the nodes cannot be pulled, as the default is for the tag latest.
    """
    for container in _training_containers(job, pods):
        if container["image"] == image_name and container.get("imagePullPolicy"):
            return {"imagePullPolicy": container["imagePullPolicy"]}
    return {}


def _is_chief(found: _Object) -> bool:
    labels = found["metadata"].get("labels") or {}
    return bool(labels.get(LABEL_ROLE) == Role.CHIEF.value)


def _runs(found: _Object) -> bool:
    return (found.get("status") or {}).get("phase") in ("Pending", "Running")
