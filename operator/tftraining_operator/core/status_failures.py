"""Which failure a job's status tells of: the newest, and the first."""

from datetime import datetime, timedelta

from tftraining_operator.api.status import Failure
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod, slots
from tftraining_operator.core.policies.failure import is_stale
from tftraining_operator.core.policies.membership import is_not_expected
from tftraining_operator.core.times import parse, rfc3339

_CLOCK_STEP = timedelta(seconds=1)
"""Kubernetes' times have no fractions of a second."""


def failures(
    job: Job, observed: Observed, decision: Decision, facts: Facts, now: datetime
) -> dict[str, object]:
    """Return lastFailure and firstFailure where they change."""
    if decision.phase in (Phase.EVALUATING, Phase.SUCCEEDED):
        return {}
    culprit = decision.culprit
    if culprit is not None and culprit.failure is not None:
        # It decided, whatever its node's clock says.
        newest: Failure | None = _failure(culprit, culprit.failure, now)
    else:
        newest = _newest(_candidates(job, observed, facts, now), job.status.last_failure)
    if newest is None:
        return {}
    return {"last_failure": newest, "first_failure": job.status.first_failure or newest}


def _candidates(
    job: Job, observed: Observed, facts: Facts, now: datetime
) -> list[tuple[Failure, bool]]:
    """Return what is wrong now, in the order of the pods, and whether it has a time of its own."""
    found: list[tuple[Failure, bool]] = []
    for role, index, name in slots(job):
        pod = observed.get(role, index)
        if (refused := facts.refused.get(name)) is not None:
            missing = Pod(name, "", role, index, job.status.attempt, None, "Pending")
            found.append((_failure(missing, refused, now), False))
        elif (
            pod is None
            or pod.deleting
            or pod.succeeded
            or is_stale(job, pod)
            or is_not_expected(job, pod)
        ):
            continue
        elif (cause := pod.failure or pod.startup_problem) is not None and not cause.is_wait:
            # A node whose clock is ahead would report something new at each moment.
            timed = cause.time is not None and parse(cause.time) < now - _CLOCK_STEP
            found.append((_failure(pod, cause, now), timed))
    return found


def _newest(found: list[tuple[Failure, bool]], last: Failure | None) -> Failure | None:
    """Return what is new against the last failure.

    Several pods often have the same trouble at once: the first that was told stays the one told
    until something else happens, or each pass would tell of another.
    """
    if last is None:
        return max((f for f, _ in found), key=lambda f: parse(f.time), default=None)
    timed = [f for f, has_time in found if has_time and parse(f.time) > parse(last.time)]
    if timed:
        return max(timed, key=lambda f: parse(f.time))
    untimed = [f for f, has_time in found if not has_time]
    if any((f.pod, f.reason) == (last.pod, last.reason) for f in untimed):
        return None
    return untimed[0] if untimed else None


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
