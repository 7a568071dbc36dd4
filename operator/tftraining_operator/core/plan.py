"""Translates a decision into calls and objects; decides nothing."""

from dataclasses import dataclass, field
from typing import Any

from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core import desired
from tftraining_operator.core.decision import Decision
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, PodGroup
from tftraining_operator.core.policies.removal import Removal


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls to make, in this order: deletes, service, group, pods."""

    removals: tuple[Removal, ...] = ()
    delete_service: bool = False
    service: dict[str, Any] | None = None
    delete_groups: tuple[PodGroup, ...] = ()
    group: tuple[Gang, dict[str, Any]] | None = None
    """The group to create, and the scheduler that it is for."""
    pods: list[dict[str, Any]] = field(default_factory=list)
    delete_job: bool = False


def make_plan(job: Job, observed: Observed, decision: Decision, trainer_image: str) -> Plan:
    """Return the calls that carry out a decision. Raises InvalidTemplateError."""
    missing = decision.wants_service and not (observed.has_service or observed.service_occupied)
    gang = decision.gang
    return Plan(
        removals=decision.removals,
        delete_service=decision.delete_service,
        service=desired.service(job) if missing else None,
        delete_groups=decision.delete_groups,
        group=(
            (gang.scheduler, desired.pod_group(job, gang))
            if gang is not None
            and decision.wants_group
            and all(known.name != gang.group for known in observed.groups)
            else None
        ),
        pods=[
            desired.pod(job, role, index, job.status.attempt, trainer_image, gang=gang)
            for role, index in decision.creations
        ],
        delete_job=decision.delete_job,
    )
