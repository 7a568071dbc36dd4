"""Pod templates of a TFJob, and the checkpoints that they tell of."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api.keys import CLUSTER_PORT, CONTAINER, Role
from tftraining_operator.api.types import Checkpoint
from tftraining_operator.core.environment import is_reserved

from tftraining.cli.convert.findings import Finding, Level, RefusedError
from tftraining.cli.convert.nodes import copied
from tftraining.cli.convert.replicas import Replica, Shape

_Map = Mapping[str, Any]

_PORT = "tfjob-port"
_SET_BY_OPERATOR = ("hostname", "subdomain", "setHostnameAsFQDN")
_URI = re.compile(r"\b(?:gs|s3|az)://[^\s\"',]+")
_DEFAULT_PATH: str = Checkpoint.model_fields["path"].default
_OTHER_PATH = "/tftraining-checkpoints"


def cleaned(replica: Replica, findings: list[Finding]) -> Any:  # noqa: ANN401 - a map of ruamel
    """Return a replica's template without what the operator sets itself. Raises RefusedError."""
    path = f"{replica.path}.template"
    template = copied(replica.raw.get("template"))
    spec = template.get("spec") if isinstance(template, Mapping) else None
    if not isinstance(template, dict) or not isinstance(spec, dict):
        raise RefusedError(path, "is required: it has the containers of the pods")
    if isinstance(metadata := template.get("metadata"), dict):
        _without_server_fields(metadata)
    # The role's own restartPolicy decides, as it did there.
    spec.pop("restartPolicy", None)
    for field in _SET_BY_OPERATOR:
        if field in spec:
            del spec[field]
            text = "left out: the operator sets it"
            findings.append(Finding(Level.LOST, f"{path}.spec.{field}", text))
    if spec.get("hostNetwork"):
        text = "kept; each pod listens on port 2222, so a node has room for one pod of the job only"
        findings.append(Finding(Level.DIFFERS, f"{path}.spec.hostNetwork", text))
    if "automountServiceAccountToken" not in spec and spec.get("serviceAccountName"):
        # Whoever names an account uses it; here a token is mounted only on request.
        spec["automountServiceAccountToken"] = True
    container = _trainer(spec, path)
    at = f"{path}.spec.containers[{CONTAINER}]"
    _without_port(container, at, findings)
    _without_variables(container, at, findings)
    return template


def shared(found: list[_Map]) -> Any:  # noqa: ANN401 - a map of ruamel
    """Return the template of all roles if it is the same, None if it is not."""
    first, *others = found
    return first if all(first == other for other in others) else None


def checkpoint(
    shape: Shape, replicas: list[Replica], given: str | None, findings: list[Finding]
) -> CommentedMap | None:
    """Return spec.checkpoint, which an evaluator requires. Raises RefusedError."""
    evaluator = next((each for each in replicas if each.role is Role.EVALUATOR), None)
    if evaluator is None and given is None:
        return None
    owner = shape.source.get(Role.CHIEF, Role.CHIEF)
    chief = next(each for each in replicas if each.role is owner)
    place, mounted = _told(given), False
    if place is None and evaluator is not None:
        place, mounted = _found(chief, evaluator)
    if place is None:
        raise RefusedError(
            evaluator.path if evaluator else "spec",
            "an evaluator needs spec.checkpoint, and the templates name neither a claim that chief"
            " and evaluator mount nor an object store: name it with --checkpoint CLAIM or URI",
        )
    if evaluator is not None:
        text = (
            "it is outside of the training cluster, with a TF_CONFIG of its own: the chief does not"
            f" wait for it. spec.checkpoint is set ({_name(place)})"
        )
        findings.append(Finding(Level.DIFFERS, evaluator.path, text))
    if mounted or _DEFAULT_PATH in _mount_paths([chief, *([evaluator] if evaluator else [])]):
        place["path"] = _OTHER_PATH
    return place


def _told(given: str | None) -> CommentedMap | None:
    if given is None:
        return None
    if "://" in given:
        return CommentedMap(uri=given)
    return CommentedMap(persistentVolumeClaim=CommentedMap(claimName=given))


def _found(chief: Replica, evaluator: Replica) -> tuple[CommentedMap | None, bool]:
    """Return where chief and evaluator both have checkpoints, and whether they mount it."""
    both = [claim for claim in _claims(chief) if claim in list(_claims(evaluator))]
    if both:
        return _told(both[0]), True
    uris = [uri for uri in _uris(chief) if uri in list(_uris(evaluator))]
    return (_told(uris[0].rstrip("/")), False) if uris else (None, False)


def _name(place: _Map) -> str:
    claim = place.get("persistentVolumeClaim")
    return f"claim {claim['claimName']}" if claim else str(place.get("uri"))


def _claims(replica: Replica) -> Iterator[str]:
    spec = (replica.raw.get("template") or {}).get("spec") or {}
    mounts = _trainer(spec, replica.path).get("volumeMounts") or []
    mounted = {mount.get("name") for mount in mounts if not mount.get("readOnly")}
    mounted |= {mount.get("name") for mount in mounts if replica.role is Role.EVALUATOR}
    for volume in spec.get("volumes") or []:
        claim = volume.get("persistentVolumeClaim")
        if claim and volume.get("name") in mounted:
            yield claim["claimName"]


def _uris(replica: Replica) -> Iterator[str]:
    spec = (replica.raw.get("template") or {}).get("spec") or {}
    container = _trainer(spec, replica.path)
    texts = [*(container.get("command") or []), *(container.get("args") or [])]
    texts += [str(variable.get("value") or "") for variable in container.get("env") or []]
    for text in texts:
        yield from _URI.findall(str(text))


def _mount_paths(replicas: list[Replica]) -> set[str]:
    specs = [((each.raw.get("template") or {}).get("spec") or {}, each.path) for each in replicas]
    mounts = [_trainer(spec, path).get("volumeMounts") or [] for spec, path in specs]
    return {str(mount.get("mountPath")).rstrip("/") for each in mounts for mount in each}


def _trainer(spec: _Map, path: str) -> Any:  # noqa: ANN401 - a map of ruamel
    containers = spec.get("containers") or []
    found = next((each for each in containers if each.get("name") == CONTAINER), None)
    if found is None:
        names = ", ".join(str(each.get("name")) for each in containers) or "none"
        raise RefusedError(
            f"{path}.spec.containers", f"none is named {CONTAINER} (found: {names}); name it so"
        )
    return found


def _without_port(container: Any, path: str, findings: list[Finding]) -> None:  # noqa: ANN401
    ports = container.get("ports")
    if not ports:
        return
    for number, port in enumerate(ports):
        if port.get("name") != _PORT:
            continue
        if port.get("containerPort") != CLUSTER_PORT:
            text = (
                f"{port.get('containerPort')} is {CLUSTER_PORT} here, as TF_CONFIG says; a script"
                " that has the number itself needs the new one"
            )
            findings.append(Finding(Level.DIFFERS, f"{path}.ports[{_PORT}]", text))
        del ports[number]
        break
    if not ports:
        del container["ports"]


def _without_variables(container: Any, path: str, findings: list[Finding]) -> None:  # noqa: ANN401
    variables = container.get("env") or []
    for number in reversed(range(len(variables))):
        name = str(variables[number].get("name"))
        if is_reserved(name):
            del variables[number]
            text = "left out: the operator sets it"
            findings.append(Finding(Level.LOST, f"{path}.env[{name}]", text))


def _without_server_fields(metadata: Any) -> None:  # noqa: ANN401 - a map of ruamel
    if "creationTimestamp" in metadata and metadata["creationTimestamp"] is None:
        del metadata["creationTimestamp"]
