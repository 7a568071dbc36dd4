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
from tftraining_operator.core.progress import FRESH, Report, step_time
from tftraining_operator.core.times import parse

_AGAIN = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class StepAge:
    """What is known of the newest step."""

    since: datetime | None = None
    """When the newest step was made, or the chief began to run if there is none; None if unknown,
    or if all steps are made."""
    until: datetime | None = None
    """Until when it was the newest, as far as the chief has told."""
    is_known: bool = False
    completed: bool = False
    """Whether all steps are made."""
    awaited_until: datetime | None = None
    """Until when the first report of a chief is waited for; only then it counts as missing."""

    def has_lasted(self, limit: timedelta) -> bool:
        """Tell whether no newer step was made for so long."""
        if self.since is None or self.until is None:
            return False
        return self.until - self.since >= limit


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
        return StepAge(step_time(report, now), report.received, is_known=True)
    # The next report may be later than that where many are asked, and tells of no time.
    until = min(now, report.received + FRESH)
    known = job.status.progress
    if known is None or known.step != report.step:
        # No step yet, or one that this very report brings.
        began = parse(chief.ready_since) if chief.ready_since and not report.step else now
        return StepAge(min(began, now), until, is_known=True)
    return StepAge(parse(known.last_step_time or known.updated_at), until, is_known=True)


def has_timed_out(job: Job, age: StepAge) -> bool:
    """Tell whether stallTimeoutSeconds are over."""
    limit = _limit(job)
    return limit is not None and age.has_lasted(limit)


def is_silent(report: Report | None, age: StepAge) -> bool:
    """Tell whether a training without a new step is called stalled, whatever is done then."""
    return report is not None and age.has_lasted(report.patience)


def next_look(job: Job, report: Report | None, age: StepAge, now: datetime) -> datetime | None:
    """Return when to look at that again; None if a report will ask for it, or nothing is known.

    A report that tells how old the newest step is asks by itself once that is too old: each look
    at a training that makes steps would come too early.
    """
    if report is None or report.seconds_since_step is not None or age.since is None:
        return None
    limits = [limit for limit in (report.patience, _limit(job)) if limit is not None]
    due = [age.since + limit for limit in limits if not age.has_lasted(limit)]
    first = min(due, default=None)
    return now + _AGAIN if first is not None and first <= now else first


def _limit(job: Job) -> timedelta | None:
    limit = job.spec.run_policy.stall_timeout_seconds
    if limit is None or job.status.interrupted_time is not None:
        return None
    return timedelta(seconds=limit) if job.status.first_running_time is not None else None
