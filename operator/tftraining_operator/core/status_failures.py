"""Which failure a job's status tells of: the newest, and the first."""

from datetime import datetime

from tftraining_operator.api.types import Failure
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod, slots
from tftraining_operator.core.policies.failure import is_stale
from tftraining_operator.core.times import parse, rfc3339


def failures(
    job: Job, observed: Observed, decision: Decision, facts: Facts, now: datetime
) -> dict[str, object]:
    """Return lastFailure and firstFailure where they change."""
    if decision.phase in (Phase.EVALUATING, Phase.SUCCEEDED):
        return {}
    newest = _newest_failure(job, observed, decision, facts, now)
    if newest is None or _same(newest, job.status.last_failure):
        return {}
    return {"last_failure": newest, "first_failure": job.status.first_failure or newest}


def _newest_failure(
    job: Job, observed: Observed, decision: Decision, facts: Facts, now: datetime
) -> Failure | None:
    if decision.culprit is not None and decision.culprit.failure is not None:
        return _failure(decision.culprit, decision.culprit.failure, now)
    found = []
    for pod in observed.pods.values():
        if pod.deleting or is_stale(job, pod):
            continue
        if pod.failure is not None and not pod.succeeded:
            found.append(_failure(pod, pod.failure, now))
        elif pod.trouble is not None:
            found.append(_failure(pod, pod.trouble, now))
    if found:
        return max(found, key=lambda f: parse(f.time))
    for role, index, name in slots(job):
        if (cause := facts.refused.get(name)) is not None:
            return Failure(
                role=role.value,
                index=index,
                pod=name,
                reason=cause.reason,
                message=cause.message,
                time=rfc3339(now),
            )
    return None


def _failure(pod: Pod, cause: Cause, now: datetime) -> Failure:
    return Failure(
        role=pod.role.value,
        index=pod.index,
        pod=pod.name,
        node=pod.node,
        reason=cause.reason,
        exit_code=cause.exit_code,
        message=cause.message,
        time=cause.time or rfc3339(now),
    )


def _same(new: Failure, old: Failure | None) -> bool:
    """Tell whether two failures are one: a cause without a time of its own is new only once."""
    if old is None:
        return False
    if new.exit_code is None:
        return (new.pod, new.reason, new.exit_code) == (old.pod, old.reason, old.exit_code)
    return (new.pod, new.time, new.exit_code) == (old.pod, old.time, old.exit_code)
