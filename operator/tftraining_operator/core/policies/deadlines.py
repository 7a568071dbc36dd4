"""Deadlines as moments: each returns when it falls due, None if it does not apply."""

from datetime import datetime, timedelta

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Condition, Progress
from tftraining_operator.core.conditions import find, find_true, is_true
from tftraining_operator.core.job import Job
from tftraining_operator.core.policies.failure import NOT_COUNTED, drives_attempt
from tftraining_operator.core.progress import last_step
from tftraining_operator.core.times import parse

_FIRST_DELAY = timedelta(seconds=10)
_LONGEST_DELAY = timedelta(seconds=300)
_SILENCE = 60.0
_STEPS_MISSED = 10
_LONGEST_SILENCE = 3600.0


def active_deadline(job: Job) -> datetime | None:
    """Return when activeDeadlineSeconds are over; time spent suspended does not count."""
    limit = job.spec.run_policy.active_deadline_seconds
    if limit is None or job.status.start_time is None:
        return None
    return parse(job.status.start_time) + timedelta(seconds=limit - job.status.active_seconds)


def startup_deadline(job: Job) -> datetime | None:
    """Return until when a job that does not run has to run."""
    started = job.status.start_time
    running = find(job.status.conditions, ConditionType.RUNNING)
    if started is None or is_true(job.status, ConditionType.RUNNING):
        return None
    since = parse(started)
    if running is not None:
        since = max(since, parse(running.last_transition_time))
    return since + timedelta(seconds=job.spec.run_policy.startup_deadline_seconds)


def stall_deadline(job: Job) -> datetime | None:
    """Return until when a running job has to make a new step."""
    limit = job.spec.run_policy.stall_timeout_seconds
    running = find_true(job.status, ConditionType.RUNNING)
    if limit is None or running is None:
        return None
    return _newest_step(job.status.progress, running) + timedelta(seconds=limit)


def silence_deadline(job: Job, progress: Progress | None) -> datetime | None:
    """Return when a running job without a new step counts as stalled, whatever is done then."""
    running = find_true(job.status, ConditionType.RUNNING)
    if progress is None or running is None:
        return None
    if progress.total_steps is not None and progress.step >= progress.total_steps:
        return None
    rate = float(progress.steps_per_second or 0.0)
    # Where a step takes long, one that takes a little longer is no stall.
    patience = max(_SILENCE, _STEPS_MISSED / rate) if rate > 0 else _SILENCE
    return _newest_step(progress, running) + timedelta(seconds=min(patience, _LONGEST_SILENCE))


def evaluator_deadline(job: Job, chief_completed: datetime) -> datetime:
    """Return until when the evaluator may finish the last checkpoint."""
    return chief_completed + timedelta(seconds=job.spec.run_policy.evaluator_grace_seconds)


def expiry(job: Job) -> datetime | None:
    """Return when a finished job is to be deleted."""
    limit = job.spec.run_policy.ttl_seconds_after_finished
    if limit is None or job.status.completion_time is None:
        return None
    return parse(job.status.completion_time) + timedelta(seconds=limit)


def restart_due(job: Job) -> datetime | None:
    """Return when the next chief may be created: at once, then after 10, 20, 40 … 300 s."""
    restarts = job.status.restarts
    since = _restarted_at(job)
    if restarts <= 1 or since is None or _is_uncounted_restart(job):
        return None
    # The exponent is bounded so that the shift cannot grow with backoffLimit.
    doublings: int = 2 ** min(restarts - 2, 10)
    return since + min(_FIRST_DELAY * doublings, _LONGEST_DELAY)


def _newest_step(progress: Progress | None, running: Condition) -> datetime:
    since = parse(running.last_transition_time)
    return since if progress is None else max(since, last_step(progress))


def _is_uncounted_restart(job: Job) -> bool:
    restarting = find_true(job.status, ConditionType.RESTARTING)
    return restarting is not None and restarting.reason in NOT_COUNTED


def _restarted_at(job: Job) -> datetime | None:
    failed = job.status.last_failure
    if failed is not None and drives_attempt(job, Role(failed.role)):
        return parse(failed.time)
    # A server that fails again and again must not put the chief off for ever.
    restarting = find(job.status.conditions, ConditionType.RESTARTING)
    return parse(restarting.last_transition_time) if restarting is not None else None
