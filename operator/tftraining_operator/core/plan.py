"""What to create and delete, for a decision that is stored or harmless to repeat."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Strategy
from tftraining_operator.core import desired
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod, slots
from tftraining_operator.core.policies import cleanup, deadlines, failure
from tftraining_operator.core.policies.reachability import unreachable
from tftraining_operator.core.progress import Report
from tftraining_operator.core.times import parse

_QUICK_DEATH = timedelta(seconds=10)
"""A pod that failed sooner than this after its creation is replaced only then: no hot loop."""

_HUNG_GRACE = 1
"""Seconds for a server that answers nothing: no SIGTERM reaches it, and it has nothing to save."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls to make, in this order: deletes, service, pods."""

    deletes: list[Pod] = field(default_factory=list)
    grace: Mapping[str, int] = field(default_factory=dict)
    """Seconds that a pod gets to end, by its name, where they are not its own."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Why a pod is deleted only to be made again, by its name."""
    pods: list[dict[str, Any]] = field(default_factory=list)
    service: dict[str, Any] | None = None
    delete_service: bool = False
    delete_job: bool = False
    wake_at: datetime | None = None


def make_plan(
    job: Job,
    observed: Observed,
    decision: Decision,
    reports: Mapping[Role, Report],
    *,
    now: datetime,
    trainer_image: str,
) -> Plan:
    """Return what is missing or too much for a decision. Raises InvalidTemplateError.

    A new attempt, another cluster or an end is only stored in this pass: what it costs (deleting
    the evidence) is planned in the next one, so that a crash in between loses nothing.
    """
    if decision.phase in (Phase.SUCCEEDED, Phase.FAILED) or decision.restarts_attempt(job):
        return Plan()
    if decision.phase is Phase.FINISHED:
        return _finished(job, observed, decision, now)
    if decision.phase is Phase.SUSPENDED:
        return Plan(deletes=[p for p in observed.pods.values() if not p.deleting])
    if decision.phase is Phase.EVALUATING:
        return _evaluating(job, observed, decision, now, trainer_image)
    if decision.changes_cluster(job):
        return Plan()
    return _active(job, observed, decision, reports, now=now, trainer_image=trainer_image)


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
        replaced={pod.name: _how_lost(pod) for pod in lost},
        pods=_missing(job, observed, (Role.EVALUATOR,), trainer_image),
        wake_at=min((w for w in (decision.wake_at, *waits) if w), default=None),
    )


def _active(
    job: Job,
    observed: Observed,
    decision: Decision,
    reports: Mapping[Role, Report],
    *,
    now: datetime,
    trainer_image: str,
) -> Plan:
    pods = [pod for pod in observed.pods.values() if not pod.deleting]
    unwanted = [pod for pod in pods if _is_unwanted(job, pod)]
    wanted = [pod for pod in pods if pod not in unwanted]
    lost, waits = _lost(job, wanted, now)
    silent = {
        pod: why
        for pod, why in unreachable(job, observed, reports, now).items()
        if pod in wanted and pod not in lost
    }
    overdue = {
        pod: moment
        for pod in observed.pods.values()
        if (moment := failure.overdue_at(pod)) is not None
    }
    waits += [moment for moment in overdue.values() if moment > now]
    given_up = [pod for pod, moment in overdue.items() if moment <= now]
    roles = list(Role)
    if observed.get(Role.CHIEF) is None:
        due = deadlines.restart_due(job) or now
        if due > now:
            waits.append(due)
        if due > now or _waits_for_servers(job, observed):
            roles.remove(Role.CHIEF)
    replaced = {pod.name: _how_lost(pod) for pod in lost}
    replaced |= {pod.name: "it was deleted and its node does not end it" for pod in given_up}
    return Plan(
        deletes=[*unwanted, *lost, *silent, *given_up],
        grace={pod.name: _HUNG_GRACE for pod in silent}
        # The kubelet takes two seconds to tell that a dead container's pod is over.
        | {pod.name: 0 for pod in (*unwanted, *lost) if pod.has_no_process}
        | {pod.name: 0 for pod in given_up},
        replaced=replaced | {pod.name: why for pod, why in silent.items()},
        service=None if observed.has_service or observed.service_occupied else desired.service(job),
        pods=_missing(job, observed, tuple(roles), trainer_image),
        wake_at=min((w for w in (decision.wake_at, *waits) if w), default=None),
    )


def _waits_for_servers(job: Job, observed: Observed) -> bool:
    """Tell whether a new chief would block in TensorFlow, for ever and without a word.

    A trainer of ours waits by itself, with a limit and a word, and meanwhile imports TensorFlow:
    that is told by the progress that it has reported. The first chief starts along with its
    servers, and the startup deadline is its limit.
    """
    if job.spec.strategy is not Strategy.PARAMETER_SERVER:
        return False
    if job.status.attempt == 0 or job.status.progress is not None:
        return False
    servers = [(role, i) for role in (Role.PS, Role.WORKER) for i in job.members(role)]
    return any(
        (pod := observed.get(role, index)) is None or not pod.counts_as_ready
        for role, index in servers
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


def _how_lost(pod: Pod) -> str:
    if pod.in_restart_backoff:
        return "it had run well, and the kubelet would put off its restart"
    return pod.disruption.reason if pod.disruption else "it has ended"


def _missing(
    job: Job, observed: Observed, roles: tuple[Role, ...], trainer_image: str
) -> list[dict[str, Any]]:
    return [
        desired.pod(job, role, index, job.status.attempt, trainer_image)
        for role, index, name in slots(job)
        if role in roles and observed.get(role, index) is None and name not in observed.occupied
    ]
