"""A chief that runs out of memory twice in a row: the message says how much it had."""

from tftraining_operator.api.keys import Role
from tftraining_operator.core.cause import OOM_KILLED
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Pod


def advice(job: Job, culprit: Pod) -> str:
    """Return what to add to the failure's message, "" if nothing."""
    last = job.status.last_restart
    if culprit.role is not Role.CHIEF or culprit.failure is None or last is None:
        return ""
    if culprit.failure.exit_code is None:
        return ""  # it was another container of its pod
    if culprit.failure.reason != OOM_KILLED or last.failure_reason != OOM_KILLED:
        return ""
    had = (
        f"with a memory limit of {culprit.memory_limit}"
        if culprit.memory_limit
        else ("without a memory limit of its own, so it had what its node had left")
    )
    return f"the chief ran out of memory twice in a row {had}"
