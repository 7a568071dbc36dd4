"""Whether a job is to have no pods, because it is suspended or its suspension has begun.

While a job is suspended its templates may change, and the API server knows only what the spec says:
one that is resumed while its chief still saves may have other templates than its servers. So may
one that was suspended and resumed before anybody looked; and it may have quota for other pods.
"""

from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.fingerprint import has_pods_of_before
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.workload_body import is_of_before


def suspends(job: Job, observed: Observed) -> bool:
    """Tell whether the pods of a job are to end, or are ending, for its suspension."""
    return (
        job.spec.run_policy.suspend
        or _has_begun(job, observed)
        or has_pods_of_before(job, observed)
        or _has_quota_of_before(job, observed)
    )


def message(job: Job) -> str:
    """Say why the job has no pods."""
    if job.spec.run_policy.suspend:
        return "suspended by spec.runPolicy.suspend; the checkpoint is kept"
    return "resumed; new pods are created when those from before the suspension have ended"


def _has_quota_of_before(job: Job, observed: Observed) -> bool:
    workload = observed.workload
    return workload is not None and not observed.pods and is_of_before(job, workload)


def _has_begun(job: Job, observed: Observed) -> bool:
    """Tell whether a suspension that was taken back cost the chief, and the rest is to follow.

    It is over when the status names no chief: pods that there are then were made after it.
    """
    if not is_true(job.status, ConditionType.SUSPENDED) or job.status.chief_uid is None:
        return False
    chief = observed.get(Role.CHIEF)
    return chief is None or chief.deleting
