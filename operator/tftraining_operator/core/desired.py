"""The objects that a job should have: pods, and one of each kind beside them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.api.status import GangStatus
from tftraining_operator.api.types import Strategy
from tftraining_operator.core.fingerprint import fingerprint
from tftraining_operator.core.gang import carried, later_group, needed, scheduling
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import (
    disruption_budget_name,
    job_labels,
    network_policy_name,
    pod_labels,
    pod_name,
)
from tftraining_operator.core.placement import place, priority_classes, require_one_scheduler
from tftraining_operator.core.pod_metadata import PodMetadata
from tftraining_operator.core.podtemplate import (
    check_neighbours,
    mounts_checkpoint,
    pod_spec,
    template,
)
from tftraining_operator.core.resources import total_requests
from tftraining_operator.core.roles import traits
from tftraining_operator.core.schedulers import SCHEDULERS
from tftraining_operator.core.schedulers.scheduler import Carried, Group
from tftraining_operator.core.tfconfig import cluster_workers

_Object = dict[str, Any]

Variant = tuple[Role, bool, bool]
"""Which pods of a job can be made if one of them can; see variant."""

_NO_METADATA = PodMetadata()


def owner_reference(job: Job) -> _Object:
    """Return the reference by which Kubernetes' garbage collector knows a job's objects."""
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _metadata(job: Job, name: str) -> _Object:
    """Return the metadata of an object that a job has beside its pods."""
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": job_labels(job.namespace, job.name, job.uid),
        "ownerReferences": [owner_reference(job)],
    }


def service(job: Job) -> _Object:
    """Return the headless service that gives every pod its name.

    Addresses are published before readiness, as servers must find each other to become ready.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, job.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {keys.LABEL_JOB_UID: job.uid},
            "ports": [
                {"name": keys.CLUSTER_PORT_NAME, "port": keys.CLUSTER_PORT, "protocol": "TCP"}
            ],
        },
    }


def network_policy(job: Job, readers: Sequence[_Object]) -> _Object:
    """Return the NetworkPolicy that lets only the job's own pods connect to each other.

    `readers` are peers that may ask for progress; without any, all may: who asks is not known.
    """
    own = {"matchLabels": {keys.LABEL_JOB_UID: job.uid}}
    progress: _Object = {"ports": [{"protocol": "TCP", "port": keys.PROGRESS_PORT}]}
    if readers:
        progress["from"] = list(readers)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(job, network_policy_name(job.name)),
        "spec": {
            "podSelector": own,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own}]}, progress],
        },
    }


def disruption_budget(job: Job) -> _Object:
    """Return the PodDisruptionBudget that keeps the pods without which an attempt ends.

    In a number of pods: what is relative, maxUnavailable as well, Kubernetes takes of the job's
    scale, which is that of its workers.
    """
    roles = [role for role in Role if traits(job.spec.strategy, role).loss_ends_attempt]
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(job, disruption_budget_name(job.name)),
        "spec": {
            "minAvailable": sum(job.desired(role) for role in roles),
            "selector": {
                "matchLabels": {keys.LABEL_JOB_UID: job.uid},
                "matchExpressions": [
                    {"key": keys.LABEL_ROLE, "operator": "In", "values": [r.value for r in roles]}
                ],
            },
            # A pod that does not work must not keep its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _eviction_annotations(strategy: Strategy, role: Role) -> dict[str, str]:
    """Return what autoscalers are told of a pod, if its template does not say otherwise."""
    does = traits(strategy, role)
    if does.loss_ends_attempt:
        return {
            keys.ANNOTATION_SAFE_TO_EVICT: "false",
            keys.ANNOTATION_DELETION_COST: str(2**31 - 1),
        }
    return {keys.ANNOTATION_SAFE_TO_EVICT: "true"} if does.tolerates_absence else {}


def pod_groups(job: Job, gang: GangStatus, version: str) -> list[_Object]:
    """Return the objects that tell a scheduler of a gang, in a version of its API.

    The second, if the scheduler needs one, is for pods that come later. Raises
    InvalidTemplateError.
    """
    priorities = priority_classes(job)
    group = Group(
        name=gang.group,
        version=version,
        members=gang.members,
        requests=total_requests(
            (template(job, role)["spec"], count) for role in Role if (count := needed(job, role))
        ),
        queue=scheduling(job).queue,
        priority_class_name=priorities.pop() if len(priorities) == 1 else None,
    )
    found = [_pod_group(job, gang, group)]
    if (name := later_group(gang)) is not None:
        found.append(_pod_group(job, gang, replace(group, name=name, members=1, requests={})))
    return found


def _pod_group(job: Job, gang: GangStatus, group: Group) -> _Object:
    scheduler = SCHEDULERS[gang.scheduler]
    return {
        "apiVersion": f"{scheduler.api.group}/{group.version}",
        "kind": "PodGroup",
        "metadata": _metadata(job, group.name),
        "spec": scheduler.group_spec(group),
    }


def pod(
    job: Job,
    role: Role,
    index: int,
    attempt: int,
    trainer_image: str,
    *,
    given: PodMetadata = _NO_METADATA,
    gang: GangStatus | None = None,
    admitted: Carried | None = None,
) -> _Object:
    """Return one pod, with what Kueue's admission adds to it. Raises InvalidTemplateError.

    A template's own labels and annotations win over those that are `given` to all pods.
    """
    metadata = template(job, role).get("metadata") or {}
    found: _Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": pod_name(job.name, role, index),
            "namespace": job.namespace,
            "labels": dict(given.labels)
            | (metadata.get("labels") or {})
            | pod_labels(job.namespace, job.name, job.uid, role, index, attempt=attempt),
            "annotations": _eviction_annotations(job.spec.strategy, role)
            | dict(given.annotations)
            | (metadata.get("annotations") or {})
            | {
                keys.ANNOTATION_WORKERS: cluster_workers(job, role, index),
                keys.ANNOTATION_SPEC: fingerprint(job),
            },
            "ownerReferences": [owner_reference(job)],
        },
        "spec": pod_spec(job, role, index, attempt, trainer_image),
    }
    place(job, role, found, carried(job, gang, role, index), admitted or Carried())
    return found


def variant(job: Job, role: Role, index: int) -> Variant:
    """Return what a pod has in common with those that can be made if it can.

    They have its role, and are like it in the present cluster or not, and in the gang or not: what
    else is different is name and index.
    """
    return role, index < job.cluster_size(role), index < needed(job, role)


def samples(job: Job, trainer_image: str, given: PodMetadata = _NO_METADATA) -> list[_Object]:
    """Return one pod for each distinct template of the job, to be tried against the API server.

    They carry no group, which does not exist yet. Raises InvalidTemplateError.
    """
    if scheduling(job).gang not in (None, Gang.AUTO, Gang.NONE):
        require_one_scheduler(job)
    found: list[tuple[_Object, bool, _Object]] = []
    for role in Role:
        if not job.desired(role):
            continue
        shape = template(job, role)
        check_neighbours(job, role)
        mounts = mounts_checkpoint(job, role)
        # Each is made, as what no role's pod could hold must not wait until the pod is created.
        made = pod(job, role, 0, 0, trainer_image, given=given)
        same = next((at for at, (other, _, _) in enumerate(found) if other == shape), None)
        if same is None:
            found.append((shape, mounts, made))
        elif mounts and not found[same][1]:
            # What we add can clash with what the user wrote only by the checkpoint's mount.
            found[same] = shape, mounts, made
    return [made for _, _, made in found]
