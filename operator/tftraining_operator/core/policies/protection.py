"""Whether a job has a PodDisruptionBudget, by which the eviction API refuses its dear pods.

It exists while the job is to have such pods, and until the last of them has ended. Whatever keeps
the operator from writing it, training goes on; the condition Protected says so.
"""

from datetime import datetime

from tftraining_operator.api.disruption import DisruptionBudget
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core import desired
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import disruption_budget_name
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.policies.upkeep import Upkeep, is_in_place, upkeep
from tftraining_operator.core.roles import traits


def protection(
    job: Job, observed: Observed, facts: Facts, now: datetime, *, trains: bool
) -> Upkeep:
    """Decide about the PodDisruptionBudget of a job, which `trains` or is to have no pods."""
    exists = observed.disruption_budget is not None
    if budget(job, facts) is DisruptionBudget.NONE:
        return Upkeep(delete=exists)
    if not trains:
        return Upkeep(delete=exists and not _has_essential_pods(job, observed))
    name = disruption_budget_name(job.name)
    # One that was not written a moment ago is tried again later; that of an earlier job of this
    # name is being collected, and a watch event tells when it is.
    if (facts.waits(now) and name in facts.held) or observed.disruption_budget_occupied:
        return Upkeep()
    refused = problem(job, observed, facts) is not None
    wanted, corrected = desired.disruption_budget(job), facts.corrected.get(name)
    return upkeep(wanted, observed.disruption_budget, corrected, now, refused=refused)


def budget(job: Job, facts: Facts) -> DisruptionBudget:
    """Return which pods are protected: what the job says, else the operator's default."""
    given = job.spec.disruption.budget if job.spec.disruption is not None else None
    return given or facts.budgeting.default


def problem(job: Job, observed: Observed, facts: Facts) -> Cause | None:
    """Return why the PodDisruptionBudget is not as it has to be, as far as that is known."""
    if budget(job, facts) is DisruptionBudget.NONE:
        return None
    if is_in_place(desired.disruption_budget(job), observed.disruption_budget):
        return None
    if facts.budgeting.problem:
        return Cause(Reason.REFUSED, facts.budgeting.problem)
    return facts.refused.get(disruption_budget_name(job.name))


def _has_essential_pods(job: Job, observed: Observed) -> bool:
    return any(
        (pod.active or pod.runs) and traits(job.spec.strategy, pod.role).loss_ends_attempt
        for pod in observed.pods.values()
    )
