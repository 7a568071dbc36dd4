"""The conditions Isolated and Protected: whether the objects that guard the pods could be made.

Like others, they appear when they first say something: that it could not. Called by
core/status_conditions.py.
"""

from tftraining_operator.api.disruption import DisruptionBudget
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.conditions import ConditionWriter, find
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.policies import isolation, protection


def set_isolated(
    writer: ConditionWriter, job: Job, observed: Observed, facts: Facts, *, ends: bool
) -> None:
    """Say whether the pods have their NetworkPolicy; at its end, a job keeps what was said."""
    kind = ConditionType.ISOLATED
    if ends:
        writer.keep(kind)
        return
    cause = isolation.problem(job, observed, facts)
    if cause is not None:
        what = "no pod is created" if isolation.is_required(job) else "any pod can connect to them"
        message = f"the pods have no NetworkPolicy, so {what}: {cause.message}"
        writer.set(kind, value=False, reason=cause.reason, message=message)
    elif find(job.status.conditions, kind) is None:
        return
    elif isolation.policy(job, facts) is NetworkPolicy.OPEN:
        message = "any pod can connect to the pods of this job"
        writer.set(kind, value=False, reason=Reason.OPEN, message=message)
    elif observed.network_policy is not None:
        message = "the pods have a NetworkPolicy"
        writer.set(kind, value=True, reason=Reason.ISOLATED, message=message)
    else:
        writer.keep(kind)


def set_protected(
    writer: ConditionWriter, job: Job, observed: Observed, facts: Facts, *, trains: bool
) -> None:
    """Say whether the pods that are to be protected have their PodDisruptionBudget."""
    kind = ConditionType.PROTECTED
    cause = protection.problem(job, observed, facts) if trains else None
    if cause is not None:
        message = f"no PodDisruptionBudget, so every pod can be evicted: {cause.message}"
        writer.set(kind, value=False, reason=cause.reason, message=message)
    elif find(job.status.conditions, kind) is None:
        return
    elif protection.budget(job, facts) is DisruptionBudget.NONE:
        message = "every pod of this job can be evicted"
        writer.set(kind, value=False, reason=Reason.UNPROTECTED, message=message)
    elif observed.disruption_budget is not None:
        message = "a PodDisruptionBudget protects the pods without which training cannot go on"
        writer.set(kind, value=True, reason=Reason.PROTECTED, message=message)
    else:
        writer.keep(kind)
