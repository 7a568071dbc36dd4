"""Which healthy pods were deleted though no fault explains it, read out of a recording. Pure.

A pod is healthy if it was ready when its deletion began. A fault explains the deletion of the pods
that it hit, and of those that have to go with them, as a chief has with its ps.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from e2e.recording import Change


@dataclass(frozen=True, slots=True)
class Harm:
    """A healthy pod that was deleted."""

    at: float
    version: int
    job: str
    pod: str
    uid: str


def healthy_deleted(
    changes: Sequence[Change], ends: Mapping[str, int], explained: Iterable[str]
) -> list[Harm]:
    """Return the healthy pods that were deleted before the ends (versions) of their jobs.

    The uids of pods whose deletion is explained are left out.
    """
    known = frozenset(explained)
    by_uid: dict[str, list[Change]] = {}
    for change in changes:
        by_uid.setdefault(change.uid, []).append(change)
    found = [harm for uid, seen in by_uid.items() if uid not in known and (harm := _harm(seen))]
    return sorted(
        (h for h in found if h.job not in ends or h.version < ends[h.job]),
        key=lambda harm: harm.at,
    )


def ends_of_jobs(changes: Iterable[Change]) -> dict[str, int]:
    """Return at which version each job's training was over for good, or it was asked to go."""
    ends: dict[str, int] = {}
    for change in changes:
        over = change.kind == "DELETED" or change.leaving or _is_over(change)
        if not over:
            # A condition that somebody forged is no end.
            ends.pop(change.name, None)
        else:
            ends.setdefault(change.name, change.version)
    return ends


def _harm(seen: Sequence[Change]) -> Harm | None:
    """Find the deletion in the changes of one pod, None if it was not ready by then."""
    for before, change in itertools.pairwise(seen):
        # One that loses the label of its job is DELETED for the watch, and comes back.
        gone = change.kind == "DELETED" and change is seen[-1]
        if change.leaving or gone:
            job = before.label("job")
            harm = Harm(change.at, change.version, job, before.name, before.uid)
            return harm if before.ready else None
    return None


def _is_over(job: Change) -> bool:
    """Whether nobody needs the job's servers any more; the evaluator may still be at work."""
    status = job.thing.get("status", {})
    return "chiefCompletionTime" in status or any(
        c["type"] == "Finished" and c["status"] == "True" for c in status.get("conditions", [])
    )
