"""Extensions: quota for workers that a job gets while it trains, each by a Workload of its own.

Kueue adds nothing to a Workload that is admitted, and takes nothing of it but the whole. So the
workers that a job lacks are asked for by a second Workload, which is admitted and evicted by
itself: the job grows and shrinks with it. Workers are held in the order of their indexes, first
those of the job's own Workload. core/extension_changes.py has the writes.
"""

from tftraining_operator.api.keys import Role
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.naming import workload_name
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.schedulers.kueue_workload import Workload

LIMIT = 8
"""Of the extensions of one job. An autoscaler takes few steps from its least to its most."""

_WORKER = Role.WORKER.value


def admitted(observed: Observed) -> tuple[Workload, ...]:
    """Return the extensions whose workers may exist: up to the first one that is not admitted."""
    found: list[Workload] = []
    for number, each in enumerate(observed.extensions, 1):
        if each.extension != number or not each.admitted:
            break
        found.append(each)
    return tuple(found)


def first_waiting(observed: Observed) -> Workload | None:
    """Return the extension that is to be admitted next, None if there is none."""
    rest = observed.extensions[len(admitted(observed)) :]
    return rest[0] if rest else None


def workers(observed: Observed) -> int:
    """Return how many workers of an admitted job have quota."""
    return sum(each.admitted_count(_WORKER) for each in _holders(observed))


def holder(observed: Observed, index: int) -> Workload | None:
    """Return the Workload that has the quota of a worker, None if none has."""
    end = 0
    for each in _holders(observed):
        end += each.admitted_count(_WORKER)
        if index < end:
            return each
    return None


def next_name(job: Job, observed: Observed) -> str:
    """Return the name of the extension that is to be admitted next, whether there is one or not."""
    return workload_name(job.name, job.uid, len(admitted(observed)) + 1)


def describe_missing(job: Job, observed: Observed, facts: Facts) -> str:
    """Say why some workers of a job have no quota."""
    waiting, name = first_waiting(observed), next_name(job, observed)
    if (refused := facts.refused.get(name)) is not None:
        return f"Workload {name} could not be written: {refused.message}"
    if waiting is None and len(observed.extensions) >= LIMIT:
        return f"workers were added {LIMIT} times: to add more, suspend and resume the job"
    if waiting is None:
        return "the others have no quota"
    if waiting.evicted and waiting.holds_quota:
        reason, message = waiting.eviction
        return f"stopping the others: Kueue: {reason}: {message}"
    said = waiting.explanation()
    return f"the others are queued: Kueue{f': {said}' if said else ' has not answered yet'}"


def _holders(observed: Observed) -> tuple[Workload, ...]:
    own = (observed.workload,) if observed.workload is not None else ()
    return (*own, *admitted(observed))
