"""What goes when a job has ended."""

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import CleanPodPolicy
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod


def pods_to_clean(job: Job, observed: Observed) -> list[Pod]:
    """Return the pods of a finished job that cleanPodPolicy deletes."""
    policy = job.spec.run_policy.clean_pod_policy
    if policy is CleanPodPolicy.NONE:
        return []
    return [
        pod
        for pod in observed.pods.values()
        if not pod.deleting
        and (policy is CleanPodPolicy.ALL or pod.active or pod.only_sidecars_run)
    ]


def servers_to_release(job: Job, observed: Observed) -> list[Pod]:
    """Return the servers that nobody needs while the evaluator has its grace."""
    if job.spec.run_policy.clean_pod_policy is CleanPodPolicy.NONE:
        return []
    return [
        pod
        for role in (Role.WORKER, Role.PS)
        for pod in observed.of(role)
        if pod.active and not pod.deleting
    ]
