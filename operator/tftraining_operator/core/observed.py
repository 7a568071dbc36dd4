"""Raw pods and service of a job, bucketed by role and index."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import cause
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import pod_name
from tftraining_operator.core.roles import traits

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
    """The workers of the cluster that it was made for, as Job.worker_set tells them."""
    phase: str
    """The pod's phase; the end of the container that trains is the end, whatever sidecars do."""
    created_at: str | None = None
    grace_ends: str | None = None
    """When a pod that is being deleted has to be gone."""
    ready: bool = False
    ready_since: str | None = None
    runs: bool = False
    """Whether any of its containers runs, sidecars included."""
    in_restart_backoff: bool = False
    """Whether the kubelet puts off its restart though it had run well before."""
    disruption: Cause | None = None
    """Why the cluster takes it away: drain, preemption, eviction."""
    node: str | None = None
    progress_url: str | None = None
    """Where a running chief or evaluator says how far it is."""
    finished_at: str | None = None
    failure: Cause | None = None
    startup_problem: Cause | None = None
    """What keeps it from running, as far as the cluster says."""
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
    now: datetime,  # noqa: ARG001 - for the times of nodes, which come with the next change
) -> Observed:
    """Bucket the objects that carry a job's name by whether they are this job's.

    What belongs to no job at all is in nobody's way until its name is needed: the API server then
    refuses that name, and says so.
    """
    services = list(services)
    own: dict[tuple[Role, int], Pod] = {}
    occupied: set[str] = set()
    for raw in pods:
        if owned_by(raw, job.uid):
            # Without our labels it cannot be told what it is, nor be made a second time.
            if (pod := parse_pod(job, raw)) is not None:
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
        service_occupied=any(
            belongs_to_a_job(raw) and not owned_by(raw, job.uid) for raw in services
        ),
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


def parse_pod(job: Job, raw: _Object) -> Pod | None:
    """Parse a raw pod; None for one whose labels are not the operator's."""
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    try:
        role = Role(labels.get(keys.LABEL_ROLE, ""))
        index = int(labels.get(keys.LABEL_INDEX, ""))
        attempt = int(labels.get(keys.LABEL_ATTEMPT, ""))
    except ValueError:
        return None
    status = raw.get("status") or {}
    terminated = (cause.container_status(raw).get("state") or {}).get("terminated") or {}
    phase = _phase(raw, status, terminated)
    ready = cause.condition(raw, "Ready")
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        role=role,
        index=index,
        attempt=attempt,
        workers=(metadata.get("annotations") or {}).get(keys.ANNOTATION_WORKERS),
        phase=phase,
        created_at=metadata.get("creationTimestamp"),
        grace_ends=metadata.get("deletionTimestamp"),
        ready=ready.get("status") == "True",
        ready_since=ready.get("lastTransitionTime") if ready.get("status") == "True" else None,
        runs=_runs_any_container(status),
        in_restart_backoff=cause.is_in_restart_backoff(raw),
        disruption=cause.disruption(raw),
        node=(raw.get("spec") or {}).get("nodeName"),
        progress_url=_progress_url(job, raw, role),
        finished_at=terminated.get("finishedAt"),
        failure=cause.failure(raw) if phase != "Succeeded" else None,
        startup_problem=cause.startup_problem(raw),
        memory_limit=_memory_limit(raw),
        termination_message=terminated.get("message") or "",
    )


def slots(job: Job) -> Iterator[tuple[Role, int, str]]:
    """Yield (role, index, pod name) of every pod that the spec asks for, in creation order."""
    for role in Role:
        for index in range(job.desired(role)):
            yield role, index, pod_name(job.name, role, index)


def _phase(raw: _Object, status: _Object, terminated: _Object) -> str:
    phase: str = status.get("phase") or "Pending"
    # With a reason, the pod as a whole was ended, as by its node: what a container said is no end.
    if not terminated or (phase == "Failed" and status.get("reason")):
        return phase
    policy = (raw.get("spec") or {}).get("restartPolicy")
    if terminated.get("exitCode") == 0:
        return phase if policy == "Always" else "Succeeded"
    return "Failed" if policy == "Never" else phase


def _memory_limit(raw: _Object) -> str | None:
    for container in (raw.get("spec") or {}).get("containers") or []:
        if container.get("name") == keys.CONTAINER:
            limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
            return str(limit) if limit is not None else None
    return None


def _runs_any_container(status: _Object) -> bool:
    return any("running" in (c.get("state") or {}) for c in status.get("containerStatuses") or [])


def _progress_url(job: Job, raw: _Object, role: Role) -> str | None:
    status = raw.get("status") or {}
    address = status.get("podIP")
    if not address or not traits(job.spec.strategy, role).reports_progress:
        return None
    if status.get("phase") != "Running" or "deletionTimestamp" in raw["metadata"]:
        return None
    # By its number, which TFTRAINING_PROGRESS_PORT tells the trainer: a user may name the port.
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{keys.PROGRESS_PORT}/progress"
