"""Whether the training stands still: judged by a fresh report of the present chief, or not at all.

After a time without an operator, without an API server or without reports nothing is known, and
what is not known is never held against a job.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.core.facts import REPORT_AWAITED, Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.progress import Report
from tftraining_operator.core.times import parse

_OLDEST = timedelta(hours=10)
"""Further back nothing is counted."""


@dataclass(frozen=True, slots=True)
class StepAge:
    """What is known of the newest step."""

    since: datetime | None = None
    """When the newest step was made, or the chief began to run if there is none; None if unknown,
    or if all steps are made."""
    is_known: bool = False
    completed: bool = False
    """Whether all steps are made."""
    awaited_until: datetime | None = None
    """Until when the first report of a chief is waited for; only then it counts as missing."""


def newest_step(job: Job, observed: Observed, facts: Facts, now: datetime) -> StepAge:
    """Return how old the newest step is by the present chief's own word."""
    chief = observed.get(Role.CHIEF)
    report = facts.fresh_report(chief, now)
    if report is None or report.received is None or chief is None:
        awaited = facts.asked_since + REPORT_AWAITED if facts.asked_since else None
        return StepAge(awaited_until=awaited if awaited and awaited > now else None)
    if report.completed:
        return StepAge(is_known=True, completed=True)
    if report.seconds_since_step is not None:
        age = timedelta(seconds=min(report.seconds_since_step, _OLDEST.total_seconds()))
        return StepAge(since=report.received - age, is_known=True)
    known = job.status.progress
    if known is None or known.step != report.step:
        # No step yet, or one that this very report brings.
        began = parse(chief.ready_since) if chief.ready_since and not report.step else now
        return StepAge(since=min(began, now), is_known=True)
    return StepAge(since=parse(known.last_step_time or known.updated_at), is_known=True)


def stall_deadline(job: Job, age: StepAge) -> datetime | None:
    """Return when stallTimeoutSeconds are over, None if they are not running."""
    limit = job.spec.run_policy.stall_timeout_seconds
    if limit is None or age.since is None or job.status.interrupted_time is not None:
        return None
    if job.status.first_running_time is None:
        return None
    return age.since + timedelta(seconds=limit)


def silence_deadline(report: Report | None, age: StepAge) -> datetime | None:
    """Return when a training without a new step is called stalled, whatever is done then."""
    if age.since is None or report is None:
        return None
    return age.since + report.patience


def silence_unreported(report: Report | None, age: StepAge) -> datetime | None:
    """Return when to look for that without being asked by a report, which tells it where it can.

    Of a training that makes steps, each look would come before the newest is old.
    """
    if report is not None and report.seconds_since_step is not None:
        return None
    return silence_deadline(report, age)
