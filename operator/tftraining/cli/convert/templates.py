"""Pod templates of a TFJob, without what the operator sets itself."""

from collections.abc import Mapping
from typing import Any

from tftraining_operator.api.keys import CLUSTER_PORT, CONTAINER
from tftraining_operator.core.environment import PREFIX, SAME_IN_ALL_PODS, is_reserved
from tftraining_operator.core.podtemplate import CHECKPOINT_VOLUME

from tftraining.cli.convert.checks import require_objects
from tftraining.cli.convert.findings import Finding, Level, RefusedError
from tftraining.cli.convert.nodes import copied
from tftraining.cli.convert.replicas import Replica
from tftraining.cli.convert.tfjob_api import PORT

_Map = Mapping[str, Any]

_SET_BY_OPERATOR = ("hostname", "subdomain", "setHostnameAsFQDN")


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
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")  # its older name
    if "automountServiceAccountToken" not in spec and account:
        # Whoever names an account uses it; here a token is mounted only on request.
        spec["automountServiceAccountToken"] = True
    container = container_of(spec, path)
    at = f"{path}.spec.containers[{CONTAINER}]"
    require_objects(spec, "volumes", f"{path}.spec.")
    for field in ("ports", "env", "volumeMounts"):
        require_objects(container, field, f"{at}.")
    _without_port(container, at, findings)
    _without_variables(container, at, findings)
    _without_volume(spec, container)
    return template


def shared(found: list[_Map]) -> Any:  # noqa: ANN401 - a map of ruamel
    """Return the template of all roles if it is the same, None if it is not."""
    first, *others = found
    return first if all(first == other for other in others) else None


def container_of(spec: _Map, path: str) -> Any:  # noqa: ANN401 - a map of ruamel
    """Return the container that trains. Raises RefusedError."""
    require_objects(spec, "containers", f"{path}.spec.")
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
        if port.get("name") != PORT:
            continue
        if port.get("containerPort") != CLUSTER_PORT:
            text = (
                f"{port.get('containerPort')} is {CLUSTER_PORT} here, as TF_CONFIG says; a script"
                " that has the number itself needs the new one"
            )
            findings.append(Finding(Level.DIFFERS, f"{path}.ports[{PORT}]", text))
        if "hostPort" in port:
            text = "left out with the port, which the operator adds to each container"
            findings.append(Finding(Level.LOST, f"{path}.ports[{PORT}].hostPort", text))
        del ports[number]
        break
    if not ports:
        del container["ports"]


def _without_variables(container: Any, path: str, findings: list[Finding]) -> None:  # noqa: ANN401
    variables = container.get("env") or []
    for number in reversed(range(len(variables))):
        name = str(variables[number].get("name"))
        if not is_reserved(name):
            continue
        # A TFJob has TFTRAINING_ variables only if it was converted from a TFTrainingJob.
        same = SAME_IN_ALL_PODS.get(name) == variables[number].get("value")
        level = Level.NOTE if same or name.startswith(PREFIX) else Level.LOST
        del variables[number]
        findings.append(Finding(level, f"{path}.env[{name}]", "left out: the operator sets it"))
    if "env" in container and not variables:
        del container["env"]


def _without_volume(spec: Any, container: Any) -> None:  # noqa: ANN401 - maps of ruamel
    """Remove the checkpoint volume of a former TFTrainingJob: it is spec.checkpoint again."""
    for owner, field in ((spec, "volumes"), (container, "volumeMounts")):
        items = owner.get(field) or []
        for number in reversed(range(len(items))):
            if items[number].get("name") == CHECKPOINT_VOLUME:
                del items[number]
        if field in owner and not items:
            del owner[field]


def _without_server_fields(metadata: Any) -> None:  # noqa: ANN401 - a map of ruamel
    if "creationTimestamp" in metadata and metadata["creationTimestamp"] is None:
        del metadata["creationTimestamp"]
