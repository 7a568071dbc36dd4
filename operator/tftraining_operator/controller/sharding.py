"""Which shard a job belongs to, and which process takes or gives up which: pure functions.

Every shard has a Lease, whose holder works on the shard's jobs. All processes look at all leases
and decide by themselves; see shards, which acts on it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tftraining_operator.core.naming import bucket


def shard_of(namespace: str, name: str, shards: int) -> int:
    """Return the shard of a job."""
    return shard_of_bucket(bucket(namespace, name), shards)


def shard_of_bucket(number: int, shards: int) -> int:
    """Return the shard of the jobs of a bucket."""
    return number % shards


@dataclass(frozen=True, slots=True)
class Seen:
    """A shard's lease, as one process sees it."""

    holder: str = ""
    """The identity of who holds it; "" where it may be acquired."""
    free_for: float = 0.0
    """For how long (s) it may have been acquired already."""
    requested_by: str = ""
    """Who asks its holder to release it."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The next thing to do with leases: at most one of each kind, by the shard's number."""

    claim: int | None = None
    request: int | None = None
    release: int | None = None


def next_moves(seen: Sequence[Seen], me: str, patience: float) -> Moves:
    """Return what a process does next, so that all hold as many shards as others, or one more.

    For each shard that it has, a process leaves a free one to others for `patience` seconds. Where
    none is free, who has at least two fewer than another asks that one for a shard.
    """
    held = Counter(lease.holder for lease in seen if lease.holder)
    return Moves(
        claim=_to_claim(seen, me, held[me] * patience),
        request=_to_request(seen, me, held),
        release=_to_release(seen, me, held),
    )


def _to_claim(seen: Sequence[Seen], me: str, wait: float) -> int | None:
    free = [
        shard for shard, lease in enumerate(seen) if not lease.holder and lease.free_for >= wait
    ]
    # Each process prefers another one, so that those that start together don't race for the same.
    first = shard_of("", me, len(seen))

    def order(shard: int) -> tuple[bool, int]:
        return seen[shard].requested_by not in ("", me), (shard - first) % len(seen)

    return min(free, key=order, default=None)


def _to_request(seen: Sequence[Seen], me: str, held: Counter[str]) -> int | None:
    if any(not lease.holder for lease in seen):
        return None
    if any(lease.requested_by == me and _is_due(lease, held) for lease in seen):
        return None
    # What is asked for by somebody who has enough by now may be asked for again.
    found = [
        shard
        for shard, lease in enumerate(seen)
        if held[lease.holder] >= held[me] + 2 and not _is_due(lease, held)
    ]
    return max(found, key=lambda shard: (held[seen[shard].holder], shard), default=None)


def _to_release(seen: Sequence[Seen], me: str, held: Counter[str]) -> int | None:
    found = [
        shard for shard, lease in enumerate(seen) if lease.holder == me and _is_due(lease, held)
    ]
    return min(found, default=None)


def _is_due(lease: Seen, held: Counter[str]) -> bool:
    """Tell whether a lease is asked for by somebody who has at least two fewer than its holder."""
    asked = lease.requested_by not in ("", lease.holder)
    return asked and held[lease.holder] >= held[lease.requested_by] + 2
