"""Pod templates for a TFJob: the user's, with what the operator adds to a pod written out.

They are made by the operator's own code. What the training operator sets itself is left out:
TF_CONFIG, hostnames, the port of the cluster. So is what only an operator that watches the job can
know, and the readiness probe: the Services of a TFJob publish no address before it succeeds, and
TensorFlow's tasks have to find each other first.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Strategy
from tftraining_operator.core import environment, podtemplate
from tftraining_operator.core.gang import scheduling
from tftraining_operator.core.job import Job
from tftraining_operator.core.podtemplate import InvalidTemplateError

from tftraining.cli.convert import nodes
from tftraining.cli.convert.findings import Finding, Level, RefusedError
from tftraining.cli.convert.tfjob_api import LABEL_JOB, gang_scheduler

_Map = Mapping[str, Any]
_Object = dict[str, Any]

_SET_BY_CONTROLLER = ("hostname", "subdomain", "restartPolicy")
_LEFT_OUT = frozenset(
    {environment.TF_CONFIG, environment.ATTEMPT, environment.CLUSTER_WORKERS, environment.JOB_UID}
)
"""What the training operator sets, and what only an operator that watches the job can know."""
_GENERATED_NAME = {"fieldRef": {"fieldPath": f"metadata.labels['{LABEL_JOB}']"}}


def template(job: Job, role: Role, raw: _Map, image: str | None) -> Any:  # noqa: ANN401 - a map of ruamel
    """Return the template of a role, with the comments of the TFTrainingJob `raw`.

    `image` is the trainer image, None if it is not known. Raises RefusedError.
    """
    spec = raw["spec"]
    shared, own = (nodes.copied(part.get("template")) for part in (spec, spec.get(role) or {}))
    path = f"spec.{role.value}.template" if own else "spec.template"
    try:
        wanted = podtemplate.template(job, role)
        pod = podtemplate.pod_spec(job, role, 0, 0, image or "")
    except InvalidTemplateError as error:
        raise RefusedError(path, str(error)) from error
    given = _container(wanted["spec"])
    if image is None and "image" not in given:
        text = "names no image, and so gets the operator's trainer image: name it with --image"
        raise RefusedError(f"{path}.spec.containers[{keys.CONTAINER}]", text)
    for field in _SET_BY_CONTROLLER:
        del pod[field]
    _adapt(_container(pod), given, generated=not raw["metadata"].get("name"))
    _schedule(job, pod)
    node = nodes.laid(shared, own) if shared and own else shared or own
    return nodes.filled(node, {**wanted, "spec": pod})


def findings(job: Job, image: str | None) -> Iterator[Finding]:
    """Yield what was written into the templates."""
    templates = [podtemplate.template(job, role) for role in Role if job.spec.replicas(role)]
    containers = [_container(template["spec"]) for template in templates]
    yield Finding(
        Level.NOTE,
        "spec.template",
        "each replica has the whole template, and what the operator adds to it: variables, ports"
        " and volumes, and no ServiceAccount's token unless the template asks for it",
    )
    path = f"spec.template.spec.containers[{keys.CONTAINER}]"
    if any("image" not in container for container in containers):
        text = f"the trainer image is {image}, with the securityContext that the operator adds"
        yield Finding(Level.NOTE, f"{path}.image", text)
    if any("readinessProbe" in container for container in containers):
        text = "kept; there, other pods find a pod only when its probe succeeds: remove it if it"
        text += " needs them"
        yield Finding(Level.DIFFERS, f"{path}.readinessProbe", text)
    serves = job.spec.strategy is Strategy.PARAMETER_SERVER
    if serves and any("command" in each or "image" in each for each in containers):
        yield Finding(
            Level.DIFFERS,
            path,
            "there, a worker or parameter server that calls tftrainer.server.serve() ends 30 s"
            " after its chief, also if that is restarted later: pass chief_gone_seconds",
        )


def _container(spec: _Object) -> _Object:
    found: _Object = next(each for each in spec["containers"] if each["name"] == keys.CONTAINER)
    return found


def _adapt(container: _Object, given: _Object, *, generated: bool) -> None:
    """Leave out what a TFJob's pod does not need; `given` is the container in the template."""
    container["env"] = [each for each in container["env"] if each["name"] not in _LEFT_OUT]
    if generated:
        at = [each["name"] for each in container["env"]].index(environment.JOB)
        container["env"][at] = {"name": environment.JOB, "valueFrom": _GENERATED_NAME}
    container["ports"] = [
        port
        for port in container["ports"]
        if port.get("containerPort") != keys.CLUSTER_PORT or port in given.get("ports", [])
    ]
    if not container["ports"]:
        del container["ports"]
    if "readinessProbe" not in given:
        container.pop("readinessProbe", None)


def _schedule(job: Job, pod: _Object) -> None:
    given = scheduling(job)
    if given.priority_class_name is not None:
        pod.setdefault("priorityClassName", given.priority_class_name)
    if (name := gang_scheduler(given.gang)) is not None:
        pod.setdefault("schedulerName", name)
