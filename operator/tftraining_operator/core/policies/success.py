"""When a job has succeeded: the chief decides, the evaluator gets its grace."""

from datetime import datetime

from tftraining_operator.api.keys import Role
from tftraining_operator.core.exit_codes import is_permanent
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.policies.deadlines import evaluator_deadline
from tftraining_operator.core.times import parse


def chief_completed(job: Job, observed: Observed, now: datetime) -> datetime | None:
    """Return when the chief was first seen to have ended well, None while it has not.

    Not by its node's clock: the evaluator's grace runs from here. Once stored it stays: a completed
    chief that somebody deletes is never run again. One that is being deleted may have ended well
    only because it was told to: that is no success.
    """
    if job.status.chief_completion_time is not None:
        return parse(job.status.chief_completion_time)
    chief = observed.get(Role.CHIEF)
    return now if chief is not None and chief.succeeded and not chief.deleting else None


def evaluation_missing(
    job: Job, observed: Observed, completed: datetime, now: datetime
) -> str | None:
    """Return why the last checkpoint stays without evaluation; "" if it has one or needs none.

    None while the evaluator still has time. One that is being deleted counts as little as a chief.
    """
    if not job.desired(Role.EVALUATOR):
        return ""
    evaluator = observed.get(Role.EVALUATOR)
    if evaluator is not None and evaluator.succeeded and not evaluator.deleting:
        return ""
    # Of what runs again, the failure is that of its container before.
    failure = evaluator.failure if evaluator is not None and not evaluator.trains_since else None
    if failure is not None and is_permanent(failure):
        return f"the evaluator failed with exit code {failure.exit_code}"
    if now >= evaluator_deadline(job, completed):
        grace = job.spec.run_policy.evaluator_grace_seconds
        return f"the evaluator did not finish within {grace} s after the chief"
    return None
