"""One TFJob (kubeflow.org/v1) as a TFTrainingJob, with a finding for each difference in meaning.

It works on the maps of ruamel.yaml, which carry the file's comments, and on plain dicts alike, and
changes neither: what it takes over is copied.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api import keys

from tftraining.cli.convert import (
    checkpoints,
    checks,
    kueue,
    metadata,
    nodes,
    policies,
    scheduling,
    templates,
    tfjob_api,
)
from tftraining.cli.convert.findings import Conversion, Finding, Level, RefusedError
from tftraining.cli.convert.replicas import Replica, Shape, read_replicas, shape_of

_Map = Mapping[str, Any]

_ROOT = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC = frozenset(
    {"runPolicy", "tfReplicaSpecs", "successPolicy", "enableDynamicWorker"} | set(policies.FIELDS)
)


def convert(raw: _Map, *, checkpoint: str | None = None) -> Conversion:
    """Convert one object of kind TFJob.

    `checkpoint` is a claim's name or an object store's URI, for jobs with an evaluator whose
    templates do not say where checkpoints are.
    """
    findings: list[Finding] = []
    try:
        job = _convert(raw, checkpoint, findings)
    except RefusedError as error:
        return Conversion(metadata.shown_name(raw), None, (*findings, error.finding))
    return Conversion(metadata.shown_name(raw), job, tuple(findings))


def _convert(raw: _Map, checkpoint: str | None, findings: list[Finding]) -> CommentedMap:
    version = raw.get("apiVersion")
    if version != tfjob_api.VERSION:
        raise RefusedError(
            "apiVersion",
            f"{version} cannot be converted, only {tfjob_api.VERSION}: apply it to a cluster with"
            " the training operator and read it back (kubectl get tfjob -o yaml), or write it as"
            " v1",
        )
    spec = checks.part(raw, "spec")
    unknown = [*sorted(set(raw) - _ROOT), *(f"spec.{key}" for key in sorted(set(spec) - _SPEC))]
    findings += [Finding(Level.LOST, path, "unknown field; left out") for path in unknown]
    replicas = read_replicas(spec, findings)
    shape = shape_of(replicas)
    findings += shape.findings
    made = nodes.like(raw)
    made["apiVersion"], made["kind"] = keys.API_VERSION, keys.KIND
    made["metadata"] = metadata.kept(checks.part(raw, "metadata"), findings)
    findings += kueue.from_tfjob(raw)
    made["spec"] = _spec(spec, replicas, shape, checkpoint, findings)
    run_policy = policies.run_policy(spec, replicas, findings, queued=kueue.has_queue(raw))
    if run_policy:
        made["spec"]["runPolicy"] = run_policy
    if (manager := policies.managed_by(spec, findings)) is not None:
        made["spec"]["managedBy"] = manager
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
    checks.checked(made["metadata"], made["spec"])
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
    at = checkpoints.checkpoint(shape, replicas, checkpoint, found)
    if at is not None:
        made["checkpoint"] = at
        if "persistentVolumeClaim" in at and checkpoints.is_mounted_by_ps(replicas):
            made[keys.Role.PS.value]["mountCheckpoint"] = True
    if placed := scheduling.scheduling(spec, replicas, made, found):
        made["scheduling"] = placed
    return made


def _of_success(spec: _Map, replicas: list[Replica]) -> Iterator[Finding]:
    policy = spec.get("successPolicy") or ""
    workers = sum(each.count for each in replicas if each.role is keys.Role.WORKER)
    if policy == "AllWorkers" and workers > 1:
        yield Finding(
            Level.LOST,
            "spec.successPolicy",
            "the chief alone decides here, and workers that still run are stopped when it has"
            " succeeded; let the chief end last",
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
