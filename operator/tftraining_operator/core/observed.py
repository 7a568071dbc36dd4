"""Raw pods and other objects of a job, bucketed by role and index."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core import cause, pod_state, raw_pod
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import pod_name
from tftraining_operator.core.schedulers import SCHEDULERS
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.startup import startup
from tftraining_operator.core.times import bounded

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a job."""

    name: str
    uid: str
    role: Role
    index: int
    attempt: int
    workers: str | None
    """The workers of the cluster that it was made for, in the form of Job.worker_set."""
    phase: str
    """The pod's phase; the end of the container that trains is the end, whatever sidecars do."""
    group: str | None = None
    """The scheduler's group that it was created in."""
    workload: str | None = None
    """uid of the Workload that was admitted when it was created."""
    fingerprint: str | None = None
    """What it was made of (core/fingerprint.py)."""
    created_at: str | None = None
    grace_ends: str | None = None
    """When a pod that is being deleted has to be gone."""
    ready: bool = False
    """Whether the container that trains is ready, whatever sidecars are."""
    ready_since: str | None = None
    trains_since: str | None = None
    """Since when the container that trains runs, ready or not."""
    runs: bool = False
    """Whether any of its containers runs, sidecars included."""
    in_restart_backoff: bool = False
    """Whether the kubelet puts off its restart though it had run well before."""
    disruption: Cause | None = None
    """Why the cluster takes it away: drain, preemption, eviction."""
    node: str | None = None
    addresses: frozenset[str] = frozenset()
    """Its IP addresses."""
    progress_url: str | None = None
    """Where a running chief or evaluator says how far it is."""
    finished_at: str | None = None
    failure: Cause | None = None
    startup_problem: Cause | None = None
    """What keeps the container that trains from running, as far as the cluster says."""
    startup_recheck_at: datetime | None = None
    """When there may be a startup problem though the pod will not have changed."""
    memory_limit: str | None = None
    """Memory limit of the container that trains, as the template has it."""
    termination_message: str = ""

    @property
    def deleting(self) -> bool:
        """Whether it was deleted, and has its grace."""
        return self.grace_ends is not None

    @property
    def disrupted(self) -> bool:
        """Whether the cluster takes it away: nobody's failure."""
        return self.disruption is not None

    @property
    def succeeded(self) -> bool:
        """Whether the pod ended well."""
        return self.phase == "Succeeded"

    @property
    def counts_as_ready(self) -> bool:
        """Whether the pod serves, or has done what it was made for."""
        return (self.ready or self.succeeded) and not self.deleting

    @property
    def failed(self) -> bool:
        """Whether the pod has failed for good: the kubelet will not restart it."""
        return self.phase == "Failed"

    @property
    def active(self) -> bool:
        """Whether the pod is pending or running."""
        return not self.succeeded and not self.failed

    @property
    def only_sidecars_run(self) -> bool:
        """Whether sidecars run on though its work is done."""
        return self.runs and not self.active

    @property
    def has_no_process(self) -> bool:
        """Whether no process of it is left that could use a grace."""
        return not self.runs and (not self.active or self.in_restart_backoff)


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A scheduler's group of a job."""

    scheduler: Gang
    name: str
    uid: str
    deleting: bool
    explanation: str
    """Why it is not placed, as far as it says."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What exists of a job."""

    pods: Mapping[tuple[Role, int], Pod] = field(default_factory=dict)
    has_service: bool = False
    occupied: frozenset[str] = frozenset()
    """Names that an earlier job of this name still holds: its objects are being collected."""
    service_occupied: bool = False
    """Whether the service's name is one of these."""
    service_is_changed: bool = False
    """Whether somebody changed the service so that it no longer gives the pods their names."""
    groups: tuple[PodGroup, ...] = ()
    network_policy: _Object | None = None
    """The job's NetworkPolicy as the API server has it."""
    network_policy_occupied: bool = False
    """Whether an earlier job of this name still holds the name of the NetworkPolicy."""
    disruption_budget: _Object | None = None
    """The job's PodDisruptionBudget as the API server has it."""
    disruption_budget_occupied: bool = False
    """Whether an earlier job of this name still holds the name of the PodDisruptionBudget."""
    workload: Workload | None = None
    """What Kueue knows of the job."""
    extensions: tuple[Workload, ...] = ()
    """What Kueue knows of workers that the job was to get later, by number."""

    def get(self, role: Role, index: int = 0) -> Pod | None:
        """Return one pod, None if it does not exist."""
        return self.pods.get((role, index))

    def of(self, role: Role) -> list[Pod]:
        """Return the pods of a role by index."""
        return sorted((p for p in self.pods.values() if p.role is role), key=lambda p: p.index)


def observe(
    job: Job,
    pods: Iterable[_Object],
    services: Iterable[_Object],
    now: datetime,
    groups: Mapping[Gang, Iterable[_Object]] = MappingProxyType({}),
    *,
    network_policies: Iterable[_Object] = (),
    disruption_budgets: Iterable[_Object] = (),
    workloads: Iterable[_Object] = (),
) -> Observed:
    """Bucket the objects that carry a job's name by whether they are this job's.

    What nodes say of times is bounded by the pod's creation and `now`, the operator's clock.
    What belongs to no job at all is in nobody's way until its name is needed: the API server then
    refuses that name, and says so.
    """
    services, network_policies = list(services), list(network_policies)
    disruption_budgets, workloads = list(disruption_budgets), list(workloads)
    own: dict[tuple[Role, int], Pod] = {}
    occupied: set[str] = set()
    for raw in pods:
        if owned_by(raw, job.uid):
            # Under a name of nobody's task it is not ours to use, nor can the name be used again.
            if (pod := parse_pod(job, raw, now)) is not None:
                own[pod.role, pod.index] = pod
            else:
                occupied.add(raw["metadata"]["name"])
        elif belongs_to_a_job(raw):
            occupied.add(raw["metadata"]["name"])
    return Observed(
        pods=own,
        has_service=any(owned_by(raw, job.uid) for raw in services),
        service_is_changed=any(
            owned_by(raw, job.uid) and not _names_pods(raw, job) for raw in services
        ),
        occupied=frozenset(occupied),
        service_occupied=_is_occupied(services, job),
        groups=tuple(
            _parse_group(scheduler, raw)
            for scheduler, raws in groups.items()
            for raw in raws
            if owned_by(raw, job.uid)
        ),
        network_policy=_own(network_policies, job),
        network_policy_occupied=_is_occupied(network_policies, job),
        disruption_budget=_own(disruption_budgets, job),
        disruption_budget_occupied=_is_occupied(disruption_budgets, job),
        workload=next((Workload(raw) for raw in workloads if _is_workload_of(job, raw)), None),
        extensions=_extensions(workloads, job),
    )


def _is_workload_of(job: Job, raw: _Object) -> bool:
    """Tell whether a Workload is a job's, or came from another cluster for it to be adopted."""
    if owned_by(raw, job.uid):
        return True
    return raw["metadata"]["name"] == job.prebuilt_workload and not belongs_to_a_job(raw)


def _extensions(workloads: Iterable[_Object], job: Job) -> tuple[Workload, ...]:
    found = [
        Workload(raw)
        for raw in workloads
        if any(
            reference.get("uid") == job.uid
            for reference in raw["metadata"].get("ownerReferences") or []
        )
    ]
    return tuple(sorted((w for w in found if w.extension), key=lambda w: w.extension))


def _own(raws: Iterable[_Object], job: Job) -> _Object | None:
    return next((raw for raw in raws if owned_by(raw, job.uid)), None)


def _is_occupied(raws: Iterable[_Object], job: Job) -> bool:
    return any(belongs_to_a_job(raw) and not owned_by(raw, job.uid) for raw in raws)


def _parse_group(scheduler: Gang, raw: _Object) -> PodGroup:
    metadata = raw["metadata"]
    return PodGroup(
        scheduler=scheduler,
        name=metadata["name"],
        uid=metadata["uid"],
        deleting="deletionTimestamp" in metadata,
        explanation=cause.cluster_text(SCHEDULERS[scheduler].explanation(raw)),
    )


def _names_pods(raw: _Object, job: Job) -> bool:
    """Tell whether a service still selects the job's pods and publishes them unready."""
    spec = raw.get("spec") or {}
    wanted = {keys.LABEL_JOB_UID: job.uid}
    return spec.get("selector") == wanted and bool(spec.get("publishNotReadyAddresses"))


def belongs_to_a_job(raw: _Object) -> bool:
    """Tell whether an object's owner is a TFTrainingJob, this one or an earlier one."""
    owners = raw["metadata"].get("ownerReferences") or []
    return any(reference.get("kind") == keys.KIND for reference in owners)


def owned_by(raw: _Object, uid: str) -> bool:
    """Tell whether an object's controller is the job with this uid."""
    return any(
        reference.get("uid") == uid and reference.get("controller")
        for reference in raw["metadata"].get("ownerReferences") or []
    )


def parse_pod(job: Job, raw: _Object, now: datetime) -> Pod | None:
    """Parse a raw pod of a job; None for one that is none of its tasks."""
    metadata = raw["metadata"]
    if (identity := pod_state.task(job, raw)) is None:
        return None
    role, index, attempt = identity
    created = metadata.get("creationTimestamp")
    phase = pod_state.phase(raw)
    terminated = raw_pod.state(raw_pod.container_status(raw), "terminated") or {}
    running = raw_pod.state(raw_pod.container_status(raw), "running") or {}
    problem, ready = startup(raw, now), pod_state.is_ready(raw)

    def dated(found: Cause | None) -> Cause | None:
        return replace(found, time=bounded(found.time, created, now)) if found else None

    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        role=role,
        index=index,
        attempt=attempt,
        workers=pod_state.cluster_workers(job, raw, role),
        phase=phase,
        group=(metadata.get("annotations") or {}).get(keys.ANNOTATION_GANG),
        workload=(metadata.get("annotations") or {}).get(keys.ANNOTATION_WORKLOAD),
        fingerprint=(metadata.get("annotations") or {}).get(keys.ANNOTATION_SPEC),
        created_at=created,
        grace_ends=metadata.get("deletionTimestamp"),
        ready=ready,
        ready_since=bounded(pod_state.ready_since(raw), created, now) if ready else None,
        trains_since=bounded(running.get("startedAt"), created, now),
        runs=pod_state.runs_any_container(raw),
        in_restart_backoff=cause.is_in_restart_backoff(raw),
        disruption=dated(cause.disruption(raw)),
        node=(raw.get("spec") or {}).get("nodeName"),
        addresses=pod_state.addresses(raw),
        progress_url=pod_state.progress_url(job, raw, role),
        finished_at=bounded(terminated.get("finishedAt"), created, now),
        failure=dated(cause.failure(raw)) if phase != "Succeeded" else None,
        startup_problem=dated(problem.cause),
        startup_recheck_at=problem.recheck_at,
        memory_limit=raw_pod.memory_limit(raw),
        termination_message=terminated.get("message") or "",
    )


def slots(job: Job) -> Iterator[tuple[Role, int, str]]:
    """Yield (role, index, pod name) of every pod that the spec asks for, in creation order."""
    for role in Role:
        for index in range(job.desired(role)):
            yield role, index, pod_name(job.name, role, index)
