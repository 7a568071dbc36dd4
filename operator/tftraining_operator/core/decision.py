"""What a decision about a job holds; core/decide.py makes it.

The plan (core/plan.py) only translates it into objects, the status (core/status.py) stores it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import GangStatus, QueueStatus, Restart
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Pod, PodGroup
from tftraining_operator.core.policies.creation import Slot
from tftraining_operator.core.policies.isolation import Isolation
from tftraining_operator.core.policies.membership import Membership, present
from tftraining_operator.core.policies.removal import Removal
from tftraining_operator.core.policies.upkeep import Upkeep
from tftraining_operator.core.schedulers.scheduler import Carried
from tftraining_operator.core.workload_body import WorkloadChange


class Phase(StrEnum):
    """Where a job stands in its life."""

    SUSPENDED = "Suspended"
    QUEUED = "Queued"
    """In a queue of Kueue, without pods."""
    ACTIVE = "Active"
    EVALUATING = "Evaluating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    FINISHED = "Finished"
    """The end is stored; what is left is cleaning up."""
    DISPATCHED = "Dispatched"
    """Another cluster runs the job, and Kueue writes its status."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one look at a job."""

    phase: Phase
    attempt: int
    restarts: int
    membership: Membership
    reason: Reason | None = None
    message: str = ""
    culprit: Pod | None = None
    """The pod whose failure decided."""
    restart: Restart | None = None
    """The restart that is decided now: a new attempt, stored before anything is deleted."""
    chief_completed: datetime | None = None
    removals: tuple[Removal, ...] = ()
    """Pods to delete now."""
    announced: tuple[Removal, ...] = ()
    """Pods to replace in the next pass: stored first, as each one delays the next."""
    creations: tuple[Slot, ...] = ()
    """Pods to create now, by role and index, in this order."""
    wants_service: bool = False
    """Whether the service has to exist."""
    delete_service: bool = False
    isolation: Isolation = Isolation()  # noqa: RUF009 - frozen
    protection: Upkeep = Upkeep()  # noqa: RUF009 - frozen
    """What becomes of the job's PodDisruptionBudget."""
    gang: GangStatus | None = None
    """The gang that the pods to create belong to; None if they are scheduled one by one."""
    group_version: str = ""
    """Version of its scheduler's API in which the gang's group has to exist, "" if none has to."""
    delete_groups: tuple[PodGroup, ...] = ()
    queue: QueueStatus | None = None
    """The job's place in a queue of Kueue."""
    admitted: Mapping[Slot, Carried] = field(default_factory=dict)
    """What pods that are created carry because Kueue has admitted them."""
    workload: WorkloadChange | None = None
    """The write to what Kueue knows of the job."""
    delete_job: bool = False
    suspicion: str = ""
    """Why nothing is done about servers that the chief cannot reach."""
    look_again: datetime | None = None
    """When to look again though nothing changes."""


def stay(
    job: Job,
    phase: Phase,
    reason: Reason | None = None,
    message: str = "",
    culprit: Pod | None = None,
) -> Decision:
    """Return a decision that begins no new attempt and changes nothing yet."""
    return Decision(
        phase=phase,
        attempt=job.status.attempt,
        restarts=job.status.restarts,
        membership=present(job),
        gang=job.status.gang,
        queue=job.status.queue,
        reason=reason,
        message=message,
        culprit=culprit,
    )
