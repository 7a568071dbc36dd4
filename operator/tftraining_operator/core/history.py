"""What a status tells of its job's past: whether it was ever started, and whether it ever ran.

startTime does not tell: it is unset while a job is suspended or queued. Pure; asked wherever a rule
is for new jobs only.
"""

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.status import Status
from tftraining_operator.core.conditions import is_true


def was_started(status: Status) -> bool:
    """Tell whether pods of the job were ever created."""
    return (
        status.start_time is not None
        or status.active_seconds > 0
        or status.attempt > 0
        or status.chief_uid is not None
        or has_run(status)
    )


def has_run(status: Status) -> bool:
    """Tell whether the training ever ran, also under a version that did not store it."""
    if status.first_running_time is not None or status.progress is not None:
        return True
    stored_by_older = status.cluster_workers is None
    return stored_by_older and (status.attempt > 0 or is_true(status, ConditionType.RUNNING))
