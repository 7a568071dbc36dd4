"""One TFJob (kubeflow.org/v1) as a TFTrainingJob, with a finding for each difference in meaning.

It works on the maps of ruamel.yaml, which carry the file's comments, and on plain dicts alike, and
changes neither: what it takes over is copied.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api import keys, rules
from tftraining_operator.api.problems import from_error
from tftraining_operator.api.types import parse_spec

from tftraining.cli.convert import nodes, policies, scheduling, templates
from tftraining.cli.convert.findings import Finding, Level, RefusedError
from tftraining.cli.convert.replicas import Replica, Shape, read_replicas, shape_of

_Map = Mapping[str, Any]

SOURCE_VERSION = "kubeflow.org/v1"
SOURCE_KIND = "TFJob"
_SUFFIX = "xxxxx"
"""What the API server adds to generateName has this length."""
_KEPT_METADATA = ("name", "generateName", "namespace", "labels", "annotations")
_SERVER_METADATA = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUEUE = "kueue.x-k8s.io/queue-name"
_ROOT = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC = frozenset(
    {"runPolicy", "tfReplicaSpecs", "successPolicy", "enableDynamicWorker"} | set(policies.FIELDS)
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """What became of one TFJob."""

    name: str
    job: CommentedMap | None
    """The TFTrainingJob, None if the TFJob cannot be converted."""
    findings: tuple[Finding, ...]


def convert(raw: _Map, *, checkpoint: str | None = None) -> Conversion:
    """Convert one object of kind TFJob.

    `checkpoint` is a claim's name or an object store's URI, for jobs with an evaluator whose
    templates do not tell where checkpoints are.
    """
    metadata = raw.get("metadata") or {}
    name = str(metadata.get("name") or metadata.get("generateName") or "without a name")
    findings: list[Finding] = []
    try:
        job = _convert(raw, metadata, checkpoint, findings)
    except RefusedError as error:
        return Conversion(name, None, (*findings, error.finding))
    return Conversion(name, job, tuple(findings))


def _convert(
    raw: _Map, metadata: _Map, checkpoint: str | None, findings: list[Finding]
) -> CommentedMap:
    version = raw.get("apiVersion")
    if version != SOURCE_VERSION:
        raise RefusedError(
            "apiVersion",
            f"{version} cannot be converted, only {SOURCE_VERSION}: apply it to a cluster with the"
            " training operator and read it back (kubectl get tfjob -o yaml), or adapt it to v1",
        )
    spec = raw.get("spec") or {}
    unknown = [*sorted(set(raw) - _ROOT), *(f"spec.{key}" for key in sorted(set(spec) - _SPEC))]
    findings += [Finding(Level.LOST, path, "unknown field; it is left out") for path in unknown]
    replicas = read_replicas(spec, findings)
    shape = shape_of(replicas)
    findings += shape.findings
    made = nodes.like(raw)
    made["apiVersion"], made["kind"] = keys.API_VERSION, keys.KIND
    made["metadata"] = _metadata(metadata, findings)
    made["spec"] = _spec(spec, replicas, shape, checkpoint, findings)
    findings += _of_success(spec, replicas)
    findings.append(
        Finding(
            Level.NOTE,
            "spec.tfReplicaSpecs",
            "pods are found at POD.JOB.NAMESPACE.svc by one Service for the job, and not by a"
            " Service each; TF_CONFIG has these addresses. A ServiceAccount's token is mounted only"
            " where the template sets automountServiceAccountToken: true",
        )
    )
    _check(made)
    return made


def _spec(
    spec: _Map, replicas: list[Replica], shape: Shape, checkpoint: str | None, found: list[Finding]
) -> CommentedMap:
    made = CommentedMap()
    if shape.strategy is not None:
        made["strategy"] = shape.strategy.value
    own = {each.role: templates.cleaned(each, found) for each in replicas}
    shared = templates.shared(list(own.values()))
    if shared is not None:
        made["template"] = shared
    for role, count in shape.roles.items():
        source = shape.source.get(role, role)
        replica = next(each for each in replicas if each.role == source)
        part = nodes.like(replica.raw, {"replicas"})
        if role in (keys.Role.WORKER, keys.Role.PS):
            part["replicas"] = count
        if shared is None:
            part["template"] = nodes.copied(own[source])
        part["restartPolicy"] = policies.restart_policy(replica, role, found).value
        made[role.value] = part
    at = templates.checkpoint(shape, replicas, checkpoint, found)
    if at is not None:
        made["checkpoint"] = at
    if placed := scheduling.scheduling(spec, replicas, made, found):
        made["scheduling"] = placed
    run_policy = policies.run_policy(spec, replicas, found)
    if run_policy:
        made["runPolicy"] = run_policy
    return made


def _metadata(given: _Map, findings: list[Finding]) -> CommentedMap:
    made = nodes.like(given)
    for key in _KEPT_METADATA:
        if key in given:
            made[key] = nodes.copied(given[key])
    annotations = made.get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        del annotations[_LAST_APPLIED]
        if not annotations:
            del made["annotations"]
    findings += [
        Finding(Level.LOST, f"metadata.{key}", "it is left out")
        for key in sorted(set(given) - set(_KEPT_METADATA) - _SERVER_METADATA)
    ]
    if _KUEUE in (given.get("labels") or {}):
        findings.append(
            Finding(
                Level.LOST,
                f"metadata.labels[{_KUEUE}]",
                "kept, but Kueue queues TFJobs and not TFTrainingJobs: the job starts without it",
            )
        )
    return made


def _of_success(spec: _Map, replicas: list[Replica]) -> Iterator[Finding]:
    policy = spec.get("successPolicy") or ""
    workers = sum(each.count for each in replicas if each.role is keys.Role.WORKER)
    if policy == "AllWorkers" and workers > 1:
        yield Finding(
            Level.LOST,
            "spec.successPolicy",
            "the chief's end decides here, and workers that still run are stopped; let the chief"
            " end last",
        )
    elif policy not in ("", "AllWorkers"):
        yield Finding(Level.LOST, "spec.successPolicy", f"unknown value {policy}; left out")
    if spec.get("enableDynamicWorker"):
        yield Finding(
            Level.DIFFERS,
            "spec.enableDynamicWorker",
            "left out: spec.worker.replicas can always change while the job runs; all tasks have"
            " the whole TF_CONFIG, and the chief restarts once with the new workers",
        )


def _check(made: CommentedMap) -> None:
    """Refuse what is no valid TFTrainingJob, such as a name that is too long."""
    metadata = made["metadata"]
    generated = f"{metadata['generateName']}{_SUFFIX}" if metadata.get("generateName") else ""
    name = str(metadata.get("name") or generated)
    if not name:
        raise RefusedError("metadata.name", "is required")
    try:
        spec = parse_spec(made["spec"])
    except ValidationError as error:
        problem = from_error(error)[0]
        raise RefusedError(problem.path, problem.message) from error
    for broken in rules.problems(name, spec):
        raise RefusedError(broken.path, broken.message)
