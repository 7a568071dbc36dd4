"""Deadlines as moments: each returns when it falls due, None if it does not apply."""

from datetime import datetime, timedelta

from tftraining_operator.core.history import has_run
from tftraining_operator.core.job import Job
from tftraining_operator.core.times import parse


def active_deadline(job: Job) -> datetime | None:
    """Return when activeDeadlineSeconds are over; time suspended or in a queue does not count."""
    limit = job.spec.run_policy.active_deadline_seconds
    if limit is None or job.status.start_time is None:
        return None
    return parse(job.status.start_time) + timedelta(seconds=limit - job.status.active_seconds)


def startup_deadline(job: Job) -> datetime | None:
    """Return until when a job that never ran has to run."""
    if job.status.start_time is None or has_run(job.status):
        return None
    began = parse(job.status.start_time)
    if (gang := job.status.gang) is not None:
        # In a queue it waits for others, however long that takes; activeDeadlineSeconds limits it.
        if gang.scheduled_time is None:
            return None
        began = max(began, parse(gang.scheduled_time))
    return began + timedelta(seconds=job.spec.run_policy.startup_deadline_seconds)


def recovery_deadline(job: Job) -> datetime | None:
    """Return until when a job that was interrupted has to run again."""
    limit = job.spec.run_policy.recovery_deadline_seconds
    if limit is None or job.status.interrupted_time is None:
        return None
    return parse(job.status.interrupted_time) + timedelta(seconds=limit)


def evaluator_deadline(job: Job, chief_completed: datetime) -> datetime:
    """Return until when the evaluator may finish the last checkpoint."""
    return chief_completed + timedelta(seconds=job.spec.run_policy.evaluator_grace_seconds)


def expiry(job: Job) -> datetime | None:
    """Return when a finished job is to be deleted.

    One that came from another cluster stays until that takes it back: without it, that cluster
    could not learn how it ended, and would send it again.
    """
    if job.prebuilt_workload is not None:
        return None
    limit = job.spec.run_policy.ttl_seconds_after_finished
    if limit is None or job.status.completion_time is None:
        return None
    return parse(job.status.completion_time) + timedelta(seconds=limit)
