"""Whether a job has a NetworkPolicy, and what is done if it cannot be made.

It is made before the pods, and goes with the job. A job that asks for it gets no pods without it;
for one that has it by the operator's default, the condition Isolated says that it is missing, and
training goes on.
"""

from dataclasses import dataclass
from datetime import datetime

from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core import desired
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import network_policy_name
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.policies.upkeep import Upkeep, is_in_place, upkeep


@dataclass(frozen=True, slots=True)
class Isolation:
    """What becomes of a job's NetworkPolicy, and of its pods meanwhile."""

    policy: Upkeep = Upkeep()  # noqa: RUF009 - frozen
    required: bool = False
    """Whether no pod may be created without it."""
    blocks_pods: bool = False
    """Whether pods have to wait, as it cannot be made."""


def isolation(job: Job, observed: Observed, facts: Facts, now: datetime) -> Isolation:
    """Decide about the NetworkPolicy of a job."""
    exists = observed.network_policy is not None
    if policy(job, facts) is NetworkPolicy.OPEN:
        return Isolation(Upkeep(delete=exists))
    if is_finished(job.status) or (job.spec.run_policy.suspend and not observed.pods):
        return Isolation()
    if observed.network_policy_occupied:
        return Isolation(blocks_pods=True)
    return _isolated(job, observed, facts, now)


def _isolated(job: Job, observed: Observed, facts: Facts, now: datetime) -> Isolation:
    wanted, required = desired.network_policy(job, facts.networking.readers), is_required(job)
    corrected = facts.corrected.get(network_policy_name(job.name))
    refused = problem(job, observed, facts) is not None
    return Isolation(
        upkeep(wanted, observed.network_policy, corrected, now, refused=refused),
        required=required,
        blocks_pods=required and refused,
    )


def policy(job: Job, facts: Facts) -> NetworkPolicy:
    """Return the job's policy: its own, else the operator's default."""
    given = job.spec.network.policy if job.spec.network is not None else None
    return given or facts.networking.default


def is_required(job: Job) -> bool:
    """Tell whether the job itself asks for the NetworkPolicy."""
    return job.spec.network is not None and job.spec.network.policy is NetworkPolicy.ISOLATED


def problem(job: Job, observed: Observed, facts: Facts) -> Cause | None:
    """Return why the NetworkPolicy is not as it has to be, None if it is, or soon will be."""
    if policy(job, facts) is NetworkPolicy.OPEN:
        return None
    wanted = desired.network_policy(job, facts.networking.readers)
    if is_in_place(wanted, observed.network_policy):
        return None
    if facts.networking.problem:
        return Cause(Reason.REFUSED, facts.networking.problem)
    return facts.refused.get(network_policy_name(job.name))
