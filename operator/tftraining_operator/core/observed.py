"""Raw pods and service of a job, bucketed by role and index."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import cause
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.environment import reports_progress
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import pod_name

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a job."""

    name: str
    uid: str
    role: Role
    index: int
    attempt: int
    workers: int | None
    phase: str
    created_at: str | None = None
    deleting: bool = False
    ready: bool = False
    ended_well: bool = False
    """Whether its work is done for good; the phase says so only a moment later."""
    disrupted: bool = False
    node: str | None = None
    progress_url: str | None = None
    """Where a running chief or evaluator says how far it is."""
    finished_at: str | None = None
    failure: Cause | None = None
    trouble: Cause | None = None
    last_words: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the pod ended well."""
        return self.phase == "Succeeded"

    @property
    def counts_as_ready(self) -> bool:
        """Whether the pod serves, or has done what it was made for."""
        return (self.ready or self.succeeded or self.ended_well) and not self.deleting

    @property
    def failed(self) -> bool:
        """Whether the pod has failed for good: the kubelet will not restart it."""
        return self.phase == "Failed"

    @property
    def active(self) -> bool:
        """Whether the pod is pending or running."""
        return not self.succeeded and not self.failed


@dataclass(frozen=True, slots=True)
class Observed:
    """What exists of a job."""

    pods: Mapping[tuple[Role, int], Pod] = field(default_factory=dict)
    has_service: bool = False
    occupied: frozenset[str] = frozenset()
    """Names that an earlier job of this name still holds: its objects are being collected.

    Also that of an own pod from which somebody took our labels: it cannot be made twice.
    """
    service_occupied: bool = False
    """Whether the service's name is one of these."""

    def get(self, role: Role, index: int = 0) -> Pod | None:
        """Return one pod, None if it does not exist."""
        return self.pods.get((role, index))

    def of(self, role: Role) -> list[Pod]:
        """Return the pods of a role by index."""
        return sorted((p for p in self.pods.values() if p.role is role), key=lambda p: p.index)


def observe(job: Job, pods: Iterable[_Object], services: Iterable[_Object]) -> Observed:
    """Bucket the objects that carry a job's name by whether they are this job's."""
    services = list(services)
    own: dict[tuple[Role, int], Pod] = {}
    occupied: set[str] = set()
    for raw in pods:
        pod = parse_pod(raw) if owned_by(raw, job.uid) else None
        if pod is None:
            occupied.add(raw["metadata"]["name"])
        else:
            own[pod.role, pod.index] = pod
    return Observed(
        pods=own,
        has_service=any(owned_by(raw, job.uid) for raw in services),
        occupied=frozenset(occupied),
        service_occupied=any(not owned_by(raw, job.uid) for raw in services),
    )


def owned_by(raw: _Object, uid: str) -> bool:
    """Tell whether an object's controller is the job with this uid."""
    return any(
        reference.get("uid") == uid and reference.get("controller")
        for reference in raw["metadata"].get("ownerReferences") or []
    )


def parse_pod(raw: _Object) -> Pod | None:
    """Parse a raw pod; None for one whose labels are not the operator's."""
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    try:
        role = Role(labels.get(keys.LABEL_ROLE, ""))
        index = int(labels.get(keys.LABEL_INDEX, ""))
        attempt = int(labels.get(keys.LABEL_ATTEMPT, ""))
    except ValueError:
        return None
    workers = (metadata.get("annotations") or {}).get(keys.ANNOTATION_WORKERS, "")
    status = raw.get("status") or {}
    terminated = (cause.container_status(raw).get("state") or {}).get("terminated") or {}
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        role=role,
        index=index,
        attempt=attempt,
        workers=int(workers) if workers.isdecimal() else None,
        phase=status.get("phase") or "Pending",
        created_at=metadata.get("creationTimestamp"),
        deleting="deletionTimestamp" in metadata,
        ready=_is_ready(status),
        ended_well=terminated.get("exitCode") == 0
        and (raw.get("spec") or {}).get("restartPolicy") != "Always",
        disrupted=cause.is_disrupted(raw),
        node=(raw.get("spec") or {}).get("nodeName"),
        progress_url=_progress_url(raw, status, role),
        finished_at=terminated.get("finishedAt"),
        failure=cause.failure(raw),
        trouble=cause.trouble(raw),
        last_words=terminated.get("message") or "",
    )


def slots(job: Job) -> Iterator[tuple[Role, int, str]]:
    """Yield (role, index, pod name) of every pod that the spec asks for, in creation order."""
    for role in Role:
        for index in range(job.desired(role)):
            yield role, index, pod_name(job.name, role, index)


def _is_ready(status: _Object) -> bool:
    return any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or []
    )


def _progress_url(raw: _Object, status: _Object, role: Role) -> str | None:
    address = status.get("podIP")
    if not reports_progress(role) or not address or status.get("phase") != "Running":
        return None
    if "deletionTimestamp" in raw["metadata"]:
        return None
    # By its number, which TFTRAINING_PROGRESS_PORT tells the trainer: a user may name the port.
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{keys.PROGRESS_PORT}/progress"
