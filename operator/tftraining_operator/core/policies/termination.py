"""In which order pods end: the chief first, so that it saves while its servers still serve."""

from collections.abc import Collection, Container, Iterable
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.policies.failure import drives_attempt
from tftraining_operator.core.policies.removal import Removal
from tftraining_operator.core.times import parse

OVERDUE = timedelta(seconds=75)
"""A pod that still exists so long after its grace is on a node that is lost. A kubelet may hear of
a deletion a minute late: after an outage of the API server its watch waits for up to 30 s, doubled
by chance."""

NODE_LOST = "still terminating past its grace period; assuming its node is lost"
"""What is said of such a pod."""


def end_in_order(
    job: Job, observed: Observed, unwanted: Iterable[Pod], now: datetime
) -> list[Removal]:
    """Return what to delete now of the pods that are to go, those that drive the attempt first."""
    going = _going(observed, unwanted)
    saving = any(_may_save(job, pod) for pod in going)
    return [
        Removal(pod, now, grace=0 if pod.has_no_process else None)
        for pod in going
        if not pod.deleting and (not saving or drives_attempt(job, pod.role))
    ]


def is_saving(
    job: Job, observed: Observed, unwanted: Iterable[Pod], undeletable: Container[str]
) -> bool:
    """Tell whether one of the pods that are to go may save yet; not of those that cannot go."""
    return any(
        _may_save(job, pod) for pod in _going(observed, unwanted) if pod.name not in undeletable
    )


def overdue(job: Job, observed: Observed, *, made_again: Collection[Role] = ()) -> list[Removal]:
    """Return the forced deletions of pods that do not end, each due when it counts as lost.

    Those of roles that are `made_again` are replaced by others, which is told.
    """

    def cause(pod: Pod) -> str:
        # What drives the attempt has a restart of its own that says so.
        is_replaced = pod.role in made_again and pod.index < job.desired(pod.role)
        return NODE_LOST if is_replaced and not drives_attempt(job, pod.role) else ""

    return [
        Removal(pod, moment, cause=cause(pod), grace=0)
        for pod in observed.pods.values()
        if (moment := overdue_at(pod)) is not None
    ]


def overdue_at(pod: Pod) -> datetime | None:
    """Return when a pod that is being deleted counts as held by a lost node."""
    return parse(pod.grace_ends) + OVERDUE if pod.grace_ends is not None else None


def _going(observed: Observed, unwanted: Iterable[Pod]) -> list[Pod]:
    going = list(unwanted)
    known = {pod.uid for pod in going}
    return going + [pod for pod in observed.pods.values() if pod.deleting and pod.uid not in known]


def _may_save(job: Job, pod: Pod) -> bool:
    return drives_attempt(job, pod.role) and pod.active and pod.runs
