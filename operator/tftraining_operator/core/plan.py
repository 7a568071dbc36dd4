"""What to create and delete, for a decision that is stored or harmless to repeat."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod, slots
from tftraining_operator.core.policies import cleanup, deadlines, failure
from tftraining_operator.core.times import parse

_QUICK_DEATH = timedelta(seconds=10)
"""A pod that failed sooner than this after its creation is replaced only then: no hot loop."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls to make, in this order: deletes, service, pods."""

    deletes: list[Pod] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=list)
    service: dict[str, Any] | None = None
    delete_service: bool = False
    delete_job: bool = False
    wake_at: datetime | None = None


def make_plan(
    job: Job, observed: Observed, decision: Decision, now: datetime, trainer_image: str
) -> Plan:
    """Return what is missing or too much for a decision. Raises InvalidTemplateError.

    A new attempt or an end is only stored in this pass: what it costs (deleting the evidence) is
    planned in the next one, so that a crash in between loses nothing.
    """
    if decision.phase in (Phase.SUCCEEDED, Phase.FAILED) or decision.restarts_attempt(job):
        return Plan()
    if decision.phase is Phase.FINISHED:
        return _finished(job, observed, decision, now)
    if decision.phase is Phase.SUSPENDED:
        return Plan(deletes=[p for p in observed.pods.values() if not p.deleting])
    if decision.phase is Phase.EVALUATING:
        return _evaluating(job, observed, decision, now, trainer_image)
    return _active(job, observed, decision, now, trainer_image)


def _finished(job: Job, observed: Observed, decision: Decision, now: datetime) -> Plan:
    expired = decision.wake_at is not None and now >= decision.wake_at
    return Plan(
        deletes=cleanup.pods_to_clean(job, observed),
        delete_service=observed.has_service and not cleanup.keeps_service(job),
        delete_job=expired,
        wake_at=None if expired else decision.wake_at,
    )


def _evaluating(
    job: Job, observed: Observed, decision: Decision, now: datetime, trainer_image: str
) -> Plan:
    if job.status.chief_completion_time is None:
        return Plan()
    lost, waits = _lost(job, observed.of(Role.EVALUATOR), now)
    return Plan(
        deletes=[*cleanup.servers_to_release(job, observed), *lost],
        pods=_missing(job, observed, (Role.EVALUATOR,), trainer_image),
        wake_at=min((w for w in (decision.wake_at, *waits) if w), default=None),
    )


def _active(
    job: Job, observed: Observed, decision: Decision, now: datetime, trainer_image: str
) -> Plan:
    pods = [pod for pod in observed.pods.values() if not pod.deleting]
    unwanted = [pod for pod in pods if _is_unwanted(job, pod)]
    lost, waits = _lost(job, [pod for pod in pods if not _is_unwanted(job, pod)], now)
    roles = list(Role)
    due = deadlines.restart_due(job) or now
    if due > now and observed.get(Role.CHIEF) is None:
        roles.remove(Role.CHIEF)
        waits.append(due)
    return Plan(
        deletes=[*unwanted, *lost],
        service=None if observed.has_service or observed.service_occupied else desired.service(job),
        pods=_missing(job, observed, tuple(roles), trainer_image),
        wake_at=min((w for w in (decision.wake_at, *waits) if w), default=None),
    )


def _is_unwanted(job: Job, pod: Pod) -> bool:
    return pod.index >= job.desired(pod.role) or failure.is_stale(job, pod)


def _lost(job: Job, pods: list[Pod], now: datetime) -> tuple[list[Pod], list[datetime]]:
    """Return the pods to replace now, and when others are to be replaced."""
    due = {
        pod: parse(pod.created_at) + _QUICK_DEATH if pod.created_at else now
        for pod in pods
        if failure.is_lost_server(job, pod) and not pod.deleting
    }
    return (
        [pod for pod, moment in due.items() if moment <= now],
        [moment for moment in due.values() if moment > now],
    )


def _missing(
    job: Job, observed: Observed, roles: tuple[Role, ...], trainer_image: str
) -> list[dict[str, Any]]:
    return [
        desired.pod(job, role, index, job.status.attempt, trainer_image)
        for role, index, name in slots(job)
        if role in roles and observed.get(role, index) is None and name not in observed.occupied
    ]
