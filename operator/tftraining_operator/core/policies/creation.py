"""Which missing pods are created now, and which have to wait."""

from dataclasses import dataclass
from datetime import datetime

from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import GangStatus
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.gang import is_waiting, needed
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, slots
from tftraining_operator.core.policies.restart import next_chief_due
from tftraining_operator.core.policies.servers import all_servers

Slot = tuple[Role, int]


@dataclass(frozen=True, slots=True)
class Creations:
    """Pods to create, by role and index, in their order."""

    slots: tuple[Slot, ...] = ()
    due: datetime | None = None
    """When others may be created."""


def missing_pods(
    job: Job, observed: Observed, facts: Facts, gang: GangStatus | None, now: datetime
) -> Creations:
    """Return the missing pods of an active job, those that are to join the cluster last."""
    roles = set(Role)
    chief_due = next_chief_due(job)
    if observed.get(Role.CHIEF) is None and chief_due is not None and chief_due > now:
        roles.discard(Role.CHIEF)
    else:
        chief_due = None
    # Servers of a gang get no node before its chief exists.
    if not is_waiting(gang) and _waits_for_servers(job, observed):
        roles.discard(Role.CHIEF)
    found = _missing(job, observed, facts, roles, now)
    if is_waiting(gang):
        # What the gang can do without would only take its room.
        found = [(role, index) for role, index in found if index < needed(job, role)]
    waits = [moment for moment in (chief_due, _retry(facts, now)) if moment is not None]
    members = {(role, i) for role in Role for i in range(job.cluster_size(role))}
    return Creations(
        tuple(sorted(found, key=lambda slot: slot not in members)), min(waits, default=None)
    )


def missing_evaluator(job: Job, observed: Observed, facts: Facts, now: datetime) -> Creations:
    """Return the evaluator if it is missing, for a job whose chief has succeeded."""
    found = _missing(job, observed, facts, {Role.EVALUATOR}, now)
    return Creations(tuple(found), _retry(facts, now))


def _missing(
    job: Job, observed: Observed, facts: Facts, roles: set[Role], now: datetime
) -> list[Slot]:
    held = facts.held if facts.waits(now) else frozenset()
    return [
        (role, index)
        for role, index, name in slots(job)
        if role in roles
        and observed.get(role, index) is None
        and name not in observed.occupied
        and name not in held
    ]


def _retry(facts: Facts, now: datetime) -> datetime | None:
    return facts.retry_at if facts.waits(now) else None


def _waits_for_servers(job: Job, observed: Observed) -> bool:
    """Tell whether a new chief would block in TensorFlow, for ever and without a message.

    Our trainer waits by itself, with a limit and a message, and meanwhile imports TensorFlow: that
    it is ours is known by the progress that it has reported. The first chief starts along with its
    servers, and the startup deadline is its limit.
    """
    if job.status.attempt == 0 or job.status.progress is not None:
        return False
    return any(
        (pod := observed.get(role, index)) is None or not pod.counts_as_ready
        for role, index in all_servers(job)
    )
