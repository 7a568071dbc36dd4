"""Which servers a job has, and which have to be replaced because they have ended, and when."""

from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import RestartPolicy
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.policies.backoff import backoff
from tftraining_operator.core.policies.removal import Removal
from tftraining_operator.core.roles import traits
from tftraining_operator.core.times import parse

FORGOTTEN_AFTER = timedelta(minutes=10)
"""A replacement so long ago does not delay the next one."""


def all_servers(job: Job) -> list[tuple[Role, int]]:
    """Return the servers of the present cluster, by role and index."""
    return [
        (role, index)
        for role in Role
        if traits(job.spec.strategy, role).serves
        for index in job.members(role)
    ]


def lost_servers(job: Job, observed: Observed, now: datetime) -> list[Removal]:
    """Return the replacements of pods that the kubelet will not restart, or not soon."""
    return [
        Removal(
            pod,
            replacement_due(job, pod, now),
            cause=_cause(pod),
            # The kubelet takes two seconds to report that a dead container's pod is over.
            grace=0 if pod.has_no_process else None,
        )
        for pod in observed.pods.values()
        if is_lost(job, pod) and not pod.deleting
    ]


def is_lost(job: Job, pod: Pod) -> bool:
    """Tell whether a pod that does not drive the attempt has to be replaced.

    Servers never end by themselves: one that ended well was ended by its node, except where its
    restartPolicy is Never: then it has done its work.
    """
    role = traits(job.spec.strategy, pod.role)
    if role.drives_attempt and pod.index < job.cluster_size(pod.role):
        return False
    if pod.succeeded:
        given = job.spec.role(pod.role)
        completes = given is not None and given.restart_policy is RestartPolicy.NEVER
        return role.serves and (pod.disrupted or not completes)
    return pod.failed or pod.in_restart_backoff


def replacement_due(job: Job, pod: Pod, now: datetime) -> datetime:
    """Return when a pod may be replaced: later after its creation each time in a row."""
    created = parse(pod.created_at) if pod.created_at else now
    return min(created, now) + backoff(replacements_in_a_row(job, pod, now))


def replacements_in_a_row(job: Job, pod: Pod, now: datetime) -> int:
    """Return how often the pods before this one were replaced lately without lasting."""
    for known in job.status.replacements:
        if known.pod == pod.name and now - parse(known.time) < FORGOTTEN_AFTER:
            return known.count - 1 if known.uid == pod.uid else known.count
    return 0


def _cause(pod: Pod) -> str:
    if pod.in_restart_backoff:
        return "it crashed after running well; a new pod starts sooner than the kubelet restarts it"
    return pod.disruption.reason if pod.disruption else "it ended"
