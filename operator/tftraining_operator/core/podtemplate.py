"""From the user's templates to one pod's metadata and spec.

What the user wrote stays; what a task needs is added. Where both would speak, the user's value is
refused with its path, never half merged.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import RestartPolicy
from tftraining_operator.core import raw_pod
from tftraining_operator.core.environment import environment, is_reserved
from tftraining_operator.core.job import Job
from tftraining_operator.core.merge import merge
from tftraining_operator.core.naming import pod_name
from tftraining_operator.core.roles import traits
from tftraining_operator.core.tfconfig import TfConfigTooLargeError

CHECKPOINT_VOLUME = "tftraining-checkpoint"
SCRATCH_VOLUME = "tftraining-tmp"
_SET_BY_OPERATOR = ("hostname", "subdomain", "restartPolicy", "setHostnameAsFQDN")
_USER_ID = 65532  # the trainer image's user

_QUANTITY = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)"  # in which no two parts could have a digit
    r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_LONGEST_QUANTITY = 64

_Object = dict[str, Any]


class InvalidTemplateError(Exception):
    """A template cannot make a pod; the text names the field and the fix."""


def template(job: Job, role: Role) -> _Object:
    """Return the user's template for a role: its own merged over the shared one, checked.

    It is made once for each Job and not to be changed. Raises InvalidTemplateError.
    """
    if (known := job.templates.get(role)) is not None:
        return known
    shared = job.spec.template.as_dict() if job.spec.template else {}
    given = job.spec.role(role)
    own = given.template.as_dict() if given and given.template else {}
    # Over nothing first: an empty `volumes:` in YAML is null, which Kubernetes takes for absent.
    merged = merge(merge({}, shared), own)
    _check(merged, job, role)
    job.templates[role] = merged
    return merged


def pod_spec(job: Job, role: Role, index: int, attempt: int, trainer_image: str) -> _Object:
    """Return the spec of one pod. Raises InvalidTemplateError."""
    spec: _Object = dict(template(job, role)["spec"])
    spec["hostname"] = pod_name(job.name, role, index)
    spec["subdomain"] = job.name
    spec["restartPolicy"] = restart_policy(job, role)
    spec.setdefault("automountServiceAccountToken", False)
    spec.setdefault("enableServiceLinks", False)
    containers = spec["containers"]
    at = next(i for i, c in enumerate(containers) if c["name"] == keys.CONTAINER)
    own_image = "image" not in containers[at]
    volumes: list[_Object] = []
    container = _container(job, role, containers[at], volumes)
    # First, so that the kubelet expands $(TFTRAINING_JOB) in the user's variables.
    container["env"] = _variables(job, role, index, attempt) + container.get("env", [])
    if own_image:
        container["image"] = trainer_image
        _harden(spec, container, volumes)
    spec["containers"] = [*containers[:at], container, *containers[at + 1 :]]
    for field in ("containers", "initContainers"):
        if field in spec:
            # Why one failed is in its log, which goes with the pod.
            policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
            spec[field] = [policy | each for each in spec[field]]
    if volumes:
        spec["volumes"] = spec.get("volumes", []) + volumes
    return spec


def restricted_pod() -> _Object:
    """Return the securityContext of a pod that runs as the trainer image's user."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER_ID,
        "runAsGroup": _USER_ID,
        "fsGroup": _USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def restricted_container() -> _Object:
    """Return the securityContext of a container that may do nothing but run."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def restart_policy(job: Job, role: Role) -> str:
    """Return the pod's restartPolicy: that of its role, or Never where the user asks for it."""
    given = job.spec.role(role)
    if given is not None and given.restart_policy is RestartPolicy.NEVER:
        return "Never"
    return traits(job.spec.strategy, role).restart_policy


def mounts_checkpoint(job: Job, role: Role) -> bool:
    """Tell whether the operator mounts the checkpoint volume in the pods of a role."""
    checkpoint, ps = job.spec.checkpoint, job.spec.ps
    if checkpoint is None or checkpoint.uri:
        return False
    asked_for = role is Role.PS and ps is not None and bool(ps.mount_checkpoint)
    return asked_for or traits(job.spec.strategy, role).mounts_checkpoint


def _container(job: Job, role: Role, given: _Object, volumes: list[_Object]) -> _Object:
    found = traits(job.spec.strategy, role)
    container = dict(given)
    ports = container.get("ports", [])
    container["ports"] = [*ports, *_missing_ports(job, role, ports)]
    if found.opens_cluster_port:
        # A chief opens its port only when every server has answered: ready means connected.
        container.setdefault(
            "readinessProbe",
            {"tcpSocket": {"port": keys.CLUSTER_PORT}, "periodSeconds": 1, "failureThreshold": 3},
        )
    if (checkpoint := job.spec.checkpoint) and mounts_checkpoint(job, role):
        volumes.append(_checkpoint_volume(job))
        container["volumeMounts"] = [
            *container.get("volumeMounts", []),
            {"name": CHECKPOINT_VOLUME, "mountPath": checkpoint.path},
        ]
    return container


def _checkpoint_volume(job: Job) -> _Object:
    checkpoint = job.spec.checkpoint
    if checkpoint and (claim := checkpoint.persistent_volume_claim):
        source: _Object = {"persistentVolumeClaim": {"claimName": claim.claim_name}}
    else:
        source = {"emptyDir": {}}
    return {"name": CHECKPOINT_VOLUME, **source}


def _variables(job: Job, role: Role, index: int, attempt: int) -> list[_Object]:
    try:
        found = environment(job, role, index, attempt)
    except TfConfigTooLargeError as error:
        raise InvalidTemplateError(str(error)) from error
    return [{"name": name, "value": value} for name, value in found.items()]


def _missing_ports(job: Job, role: Role, given: list[_Object]) -> list[_Object]:
    wanted = {keys.CLUSTER_PORT_NAME: keys.CLUSTER_PORT}
    if traits(job.spec.strategy, role).reports_progress:
        wanted[keys.PROGRESS_PORT_NAME] = keys.PROGRESS_PORT
    known = [port.get("containerPort") for port in given]
    return [
        {"name": name, "containerPort": number, "protocol": "TCP"}
        for name, number in wanted.items()
        if number not in known
    ]


def _harden(spec: _Object, container: _Object, volumes: list[_Object]) -> None:
    """Meet the restricted Pod Security Standard where the image is ours, so known to allow it."""
    spec["securityContext"] = restricted_pod() | spec.get("securityContext", {})
    container["securityContext"] = restricted_container() | container.get("securityContext", {})
    mounts = container.get("volumeMounts", [])
    paths = {posixpath.normpath(str(mount.get("mountPath"))) for mount in mounts}
    if "/tmp" not in paths:  # noqa: S108 - in the container
        volumes.append({"name": SCRATCH_VOLUME, "emptyDir": {}})
        container["volumeMounts"] = [*mounts, {"name": SCRATCH_VOLUME, "mountPath": "/tmp"}]  # noqa: S108


def _check(merged: _Object, job: Job, role: Role) -> None:
    where = f"the template of {role.value}"
    spec = merged.get("spec") or {}
    containers = spec.get("containers") or []
    found = [c for c in containers if c.get("name") == keys.CONTAINER]
    if not found:
        names = ", ".join(str(c.get("name")) for c in containers) or "none"
        raise InvalidTemplateError(
            f"{where} has no container named `{keys.CONTAINER}` (found: {names}); "
            f"name the container that trains `{keys.CONTAINER}` in spec.template.spec.containers"
        )
    _check_shapes(where, "spec", spec, ("volumes",))
    container = f"spec.containers[{keys.CONTAINER}]"
    _check_shapes(where, container, found[0], ("ports", "volumeMounts"))
    _check_ports(f"{where}: {container}.ports", job, role, found[0].get("ports", []))
    for field in _SET_BY_OPERATOR:
        if field in spec:
            raise InvalidTemplateError(
                f"{where} sets spec.{field}, which the operator sets; remove it"
                + (f" and use spec.{role.value}.restartPolicy" if field == "restartPolicy" else "")
            )
    _check_quantities(where, spec)
    for variable in found[0].get("env") or []:
        if is_reserved(variable["name"]):
            raise InvalidTemplateError(
                f"{where} sets the variable {variable['name']}, which the operator sets; remove it "
                f"from container `{keys.CONTAINER}`"
            )
    reserved_labels = [k for k in _labels(merged) if k.startswith(f"{keys.GROUP}/")]
    if reserved_labels:
        raise InvalidTemplateError(
            f"{where} sets the label or annotation {reserved_labels[0]}; remove it, "
            f"{keys.GROUP}/ is the operator's"
        )


def _check_shapes(where: str, path: str, given: _Object, lists: tuple[str, ...]) -> None:
    """Refuse what we could not add to; the CRD leaves these fields open."""
    for field in lists:
        items = given.get(field, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise InvalidTemplateError(f"{where}: {path}.{field} must be a list of objects")
    if not isinstance(given.get("securityContext", {}), dict):
        raise InvalidTemplateError(f"{where}: {path}.securityContext must be an object")


def _check_ports(path: str, job: Job, role: Role, given: list[_Object]) -> None:
    """Refuse a name that we need; the API server would name a port that the user did not write."""
    for added in _missing_ports(job, role, given):
        name, number = added["name"], added["containerPort"]
        for port in given:
            if port.get("name") == name:
                raise InvalidTemplateError(
                    f"{path}: port {port.get('containerPort')} is named `{name}`, which is the name"
                    f" of the operator's port {number}; give it another name"
                )


def check_neighbours(job: Job, role: Role) -> None:
    """Refuse a sidecar that says it listens where the container that trains does: one would end.

    For new jobs: in one that runs it may not do as it says. Raises InvalidTemplateError.
    """
    spec = template(job, role)["spec"]
    taken = _listens(job, role, spec)
    for path, name, number in _ports_of_sidecars(spec):
        if isinstance(number, int) and number in taken:
            raise InvalidTemplateError(
                f"the template of {role.value}: {path}.ports: port {number} is where container"
                f" `{keys.CONTAINER}` {taken[number]}; let container {name} listen on another one"
            )


def _listens(job: Job, role: Role, spec: _Object) -> dict[int, str]:
    """Return on which ports the container that trains listens, and what for."""
    found = traits(job.spec.strategy, role)
    container = raw_pod.container_spec({"spec": spec})
    # An image of the user's may serve no progress.
    is_ours = bool(container.get("command")) or "image" not in container
    taken = {}
    if found.opens_cluster_port:
        taken[keys.CLUSTER_PORT] = "runs TensorFlow's server"
    if found.reports_progress and is_ours and raw_pod.runs_trainer({"spec": spec}):
        taken[keys.PROGRESS_PORT] = "serves its progress"
    return taken


def _ports_of_sidecars(spec: _Object) -> Iterator[tuple[str, object, object]]:
    """Yield path and name of each container that runs beside the one that trains, and its ports."""
    for kind in ("containers", "initContainers"):
        for each in _objects(spec.get(kind)):
            name = each.get("name")
            runs_on = kind == "containers" or each.get("restartPolicy") == "Always"
            if name == keys.CONTAINER or not runs_on:
                continue
            for port in _objects(each.get("ports")):
                if port.get("protocol") in (None, "TCP"):
                    yield f"spec.{kind}[{name}]", name, port.get("containerPort")


def _check_quantities(where: str, spec: _Object) -> None:
    """Refuse what is no quantity; the API server would name neither the field nor the value."""
    for path, resource, value in _quantities(spec):
        text = str(value)
        if len(text) > _LONGEST_QUANTITY or _QUANTITY.fullmatch(text) is None:
            raise InvalidTemplateError(
                f"{where}: {path}.{resource} is {_shown(value)}, which is no quantity such as 2,"
                " 500m or 1.5Gi"
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_QUANTITY else text[: _LONGEST_QUANTITY - 1] + "…"


def _quantities(spec: _Object) -> Iterator[tuple[str, str, object]]:
    for kind in ("containers", "initContainers"):
        for container in _objects(spec.get(kind)):
            for resources in _objects([container.get("resources")]):
                for part in ("limits", "requests"):
                    for given in _objects([resources.get(part)]):
                        path = f"spec.{kind}[{container.get('name')}].resources.{part}"
                        yield from ((path, name, value) for name, value in given.items())


def _objects(given: object) -> list[_Object]:
    """Return what is an object; anything else is for the API server to refuse."""
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def _labels(merged: _Object) -> list[str]:
    metadata = merged.get("metadata") or {}
    return [*(metadata.get("labels") or {}), *(metadata.get("annotations") or {})]
