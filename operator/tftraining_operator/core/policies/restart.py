"""When the next chief may be created after a restart, and what a restart leaves in the status."""

from datetime import datetime, timedelta

from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Restart
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Pod
from tftraining_operator.core.policies import repeated_failure
from tftraining_operator.core.policies.backoff import backoff
from tftraining_operator.core.text import one_line
from tftraining_operator.core.times import parse, rfc3339

_MESSAGE_LIMIT = 1024


def restart_record(
    job: Job, reason: Reason, message: str, culprit: Pod | None, *, counted: bool, now: datetime
) -> Restart:
    """Return what is stored of a restart that is decided now."""
    delay = _delay(job, counted=counted)
    failure = culprit.failure if culprit is not None else None
    return Restart(
        reason=reason,
        message=one_line(message, _MESSAGE_LIMIT),
        time=rfc3339(now),
        counted=counted,
        not_before=rfc3339(now + delay) if delay else None,
        failure_reason=failure.reason if failure else None,
        failure_text=repeated_failure.first_line(culprit),
        step=job.status.progress.step if job.status.progress else None,
        checkpoint_step=job.status.last_checkpoint.step if job.status.last_checkpoint else None,
        repeats=repeated_failure.repeats(job, culprit),
    )


def next_chief_due(job: Job) -> datetime | None:
    """Return when the next chief may be created, None for at once."""
    last = job.status.last_restart
    return parse(last.not_before) if last is not None and last.not_before else None


def _delay(job: Job, *, counted: bool) -> timedelta:
    """Return 0 for the first restart, then 10, 20, 40 … 300 s.

    What does not count against backoffLimit waits as well if the training never ran in between: a
    node that refuses each pod must not make a hot loop.
    """
    status = job.status
    ran = status.first_running_time is not None and status.interrupted_time is None
    failed_starts = 0 if ran else status.failed_starts
    before = max(status.restarts if counted else 0, failed_starts)
    return backoff(before - 1) if before else timedelta()
