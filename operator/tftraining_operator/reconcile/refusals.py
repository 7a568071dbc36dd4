"""Why the API server refused an object, for the status."""

from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.advice import with_advice
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.history import was_started
from tftraining_operator.core.job import Job
from tftraining_operator.core.text import printable
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.objects import NameConflictError


def pod_refusal(job: Job, result: object) -> Cause | None:
    """Return why a pod was refused, None if it was not."""
    if isinstance(result, NameConflictError) and was_started(job.status):
        # A job that runs is not refused as a whole because it cannot grow.
        return Cause(Reason.NAME_CONFLICT, str(result))
    if isinstance(result, errors.InvalidObjectError):
        return Cause(Reason.INVALID_POD, printable(result.message))
    return forbidden(result) if isinstance(result, errors.ForbiddenError) else None


def forbidden(error: errors.ForbiddenError) -> Cause:
    """Return which of quota, Pod Security and other admission refused an object."""
    message = with_advice(printable(error.message))
    if "exceeded quota" in message:
        return Cause(Reason.QUOTA_EXCEEDED, message)
    if "violates PodSecurity" in message:
        return Cause(Reason.POD_SECURITY, message)
    return Cause(Reason.REFUSED, message)
