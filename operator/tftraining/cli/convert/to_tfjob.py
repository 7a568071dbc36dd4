"""One TFTrainingJob as a TFJob (kubeflow.org/v1), with a finding for each difference in meaning.

The way back of from_tfjob.py, with which it shares tfjob_api.py. What the operator does and the
training operator does not is left out and reported; what the operator adds to pods is written into
their templates (to_tfjob_templates.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api import keys
from tftraining_operator.api.disruption import DisruptionBudget
from tftraining_operator.api.keys import Role
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.api.types import Strategy
from tftraining_operator.core.job import Job

from tftraining.cli.convert import (
    checks,
    kueue,
    metadata,
    nodes,
    tfjob_api,
    to_tfjob_policies,
    to_tfjob_scheduling,
    to_tfjob_templates,
)
from tftraining.cli.convert.findings import Conversion, Finding, Level, RefusedError

_Map = Mapping[str, Any]

_ROOT = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


def convert(raw: _Map, *, image: str | None = None) -> Conversion:
    """Convert one object of kind TFTrainingJob.

    `image` is the trainer image, for templates that name none; by default that of the status, with
    which the job runs.
    """
    findings: list[Finding] = []
    try:
        job = _convert(raw, image, findings)
    except RefusedError as error:
        return Conversion(metadata.shown_name(raw), None, (*findings, error.finding))
    return Conversion(metadata.shown_name(raw), job, tuple(findings))


def _convert(raw: _Map, image: str | None, findings: list[Finding]) -> CommentedMap:
    if raw.get("apiVersion") != keys.API_VERSION:
        text = f"must be {keys.API_VERSION}, not {raw.get('apiVersion') or 'absent'}"
        raise RefusedError("apiVersion", text)
    unknown = sorted(set(raw) - _ROOT)
    findings += [Finding(Level.LOST, key, "unknown field; left out") for key in unknown]
    made = nodes.like(raw)
    made["apiVersion"], made["kind"] = tfjob_api.VERSION, tfjob_api.KIND
    made["metadata"] = metadata.kept(checks.part(raw, "metadata"), findings)
    job = checks.checked(made["metadata"], checks.part(raw, "spec"))
    kueue.set_queue(made["metadata"], job)
    findings += [*_of_the_controller(job), *_of_roles(job), *kueue.to_tfjob(made)]
    body = CommentedMap()
    run_policy = to_tfjob_policies.run_policy(job, raw["spec"].get("runPolicy"), findings)
    if scheduling_policy := to_tfjob_scheduling.scheduling_policy(job, findings):
        run_policy["schedulingPolicy"] = scheduling_policy
    body["runPolicy"] = run_policy
    known = image or (raw.get("status") or {}).get("trainerImage")
    body["tfReplicaSpecs"] = _replicas(job, raw, known, findings)
    made["spec"] = body
    return made


def _replicas(job: Job, raw: _Map, image: str | None, findings: list[Finding]) -> CommentedMap:
    made = CommentedMap()
    for role, name in tfjob_api.REPLICA_TYPES.items():
        count = job.spec.replicas(role)
        if not count:
            continue
        part = nodes.like(raw["spec"].get(role.value) or {}, {"replicas"})
        part["replicas"] = count
        part["restartPolicy"] = to_tfjob_policies.restart_policy(job, role)
        part["template"] = to_tfjob_templates.template(job, role, raw, image)
        made[name] = part
    findings += to_tfjob_templates.findings(job, image)
    findings += to_tfjob_policies.of_restarts(job)
    return made


def _of_the_controller(job: Job) -> Iterator[Finding]:
    """Yield what no field says, and the training operator does otherwise."""
    yield Finding(
        Level.DIFFERS,
        "spec",
        "a pod that is deleted, evicted or preempted, or whose node is lost, can fail the whole job"
        " there; here it is replaced, and training continues or resumes from its checkpoint",
    )
    yield Finding(
        Level.DIFFERS,
        "status",
        "a TFJob reports no progress, no checkpoint, no stall and no cause of a failure: read the"
        " logs of its pods",
    )
    given = job.spec.network.policy if job.spec.network is not None else None
    if given is not NetworkPolicy.OPEN:
        yield Finding(
            Level.LOST if given is not None else Level.DIFFERS,
            "spec.network.policy",
            "no NetworkPolicy is made, so any pod can connect to the job's servers, which run what"
            f" they are sent; write one for the label {tfjob_api.LABEL_JOB}",
        )
    if job.spec.disruption is not None and job.spec.disruption.budget is DisruptionBudget.ESSENTIAL:
        yield Finding(
            Level.LOST,
            "spec.disruption.budget",
            "left out: there, no PodDisruptionBudget is made, so a node drain can evict every pod;"
            f" write one for the label {tfjob_api.LABEL_JOB}",
        )
    yield Finding(
        Level.NOTE,
        "spec",
        "pods are found at POD.NAMESPACE.svc by a Service each, and not at POD.JOB.NAMESPACE.svc;"
        " TF_CONFIG has these addresses",
    )


def _of_roles(job: Job) -> Iterator[Finding]:
    worker, evaluator = job.spec.worker, job.spec.replicas(Role.EVALUATOR)
    if job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED and worker is not None:
        yield Finding(
            Level.NOTE,
            "spec.worker.replicas",
            f"a chief and {worker.replicas} worker{'s' if worker.replicas > 1 else ''}, as here:"
            f" {worker.replicas + 1} processes train. A TFJob of workers only counts the chief"
            " among them",
        )
    if job.spec.replicas(Role.WORKER):
        yield Finding(
            Level.DIFFERS,
            "spec.worker.replicas",
            "there, it is fixed while the job runs; here, it can change, and the chief restarts"
            " with the new workers",
        )
    if worker is not None and worker.min_replicas is not None:
        yield Finding(
            Level.LOST,
            "spec.worker.minReplicas",
            "left out: there, training waits for every worker",
        )
    if evaluator:
        text = "there, TF_CONFIG of all pods lists it"
        if job.spec.strategy is Strategy.PARAMETER_SERVER:
            text += (
                ". The trainer image ignores that entry; another script has to, or its chief waits"
                " for the evaluator for ever"
            )
        elif job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED:
            text += ", which has not been tested with MultiWorkerMirroredStrategy"
        yield Finding(Level.DIFFERS, "spec.evaluator", text)
    if job.spec.checkpoint is not None:
        yield Finding(
            Level.DIFFERS,
            "spec.checkpoint",
            "written into the templates of the pods that use it, as a volume and as variables."
            " There, a chief that finds no checkpoint after a restart begins at step 0, and"
            " jobs that share the directory, or one that is created again, are not kept apart: give"
            " each its own",
        )
