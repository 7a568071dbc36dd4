"""Leadership for some of several shards: as many as each of the other processes has, or one more.

Each shard has a lease (shard_lease); which to claim, to ask for and to give up is decided in
sharding. A process that loses one of its leases loses leadership, as with only one. Used by main.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Protocol

from tftraining_operator.controller.leader import RETRY, LeaseLostError
from tftraining_operator.controller.shard_lease import ShardLease
from tftraining_operator.controller.sharding import Seen, next_moves
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile import errors

logger = logging.getLogger(__name__)

_PATIENCE = 1 / 3
"""How long, in durations of a lease, a free shard is left to others for each that one has."""
_LOOK = 1 / 5
"""How often, in durations of a lease, who leads looks at the others' leases while all are held.
Of three shards at rest, looking each second was a quarter of what a process used."""


class Worker(Protocol):
    """Who works on the jobs of shards; see controller.runtime."""

    async def gain(self, shard: int) -> None:
        """Work on the jobs of a shard from now on."""

    async def lose(self, shard: int) -> None:
        """Work no longer on them; nothing of them is written once this returns."""


class Shards:
    """Leads for the shards whose leases it holds; at least one, once `acquire` has returned."""

    def __init__(self, leases: Sequence[ShardLease], *, identity: str, seconds: int) -> None:
        self._leases = leases
        self._identity = identity
        self._seconds = seconds
        self._held: set[int] = set()
        self._keeping: dict[int, asyncio.Task[None]] = {}
        self._worker: Worker | None = None
        self._problem: str | None = "the leases were not read yet"

    def serve(self, worker: Worker) -> None:
        """Name the worker that is notified of shards gained and lost."""
        self._worker = worker

    async def acquire(self) -> None:
        """Wait until this process leads for a shard."""
        while True:
            if (shard := await self._look_around()) is not None:
                await self._notify(shard)
                return
            await asyncio.sleep(self._seconds * RETRY)

    async def keep(self) -> None:
        """Keep leading; take further shards and give up some. Raises LeaseLostError."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for held in self._held:
                    self._keeping[held] = tasks.create_task(self._leases[held].keep())
                while True:
                    await asyncio.sleep(self._seconds * (_LOOK if self._all_are_held else RETRY))
                    if (shard := await self._look_around()) is not None:
                        self._keeping[shard] = tasks.create_task(self._leases[shard].keep())
                        await self._notify(shard)
        except* LeaseLostError as lost:
            reason = str(lost.exceptions[0])
        raise LeaseLostError(reason)

    async def release(self) -> None:
        """Give up all shards."""
        held, self._held = self._held, set()
        await asyncio.gather(*(self._leases[shard].release() for shard in held))

    def seconds_left(self) -> float:
        """Return how long (s) this process may still write: until the first lease is lost."""
        left = (self._leases[shard].seconds_left() for shard in self._held)
        return min(left, default=-math.inf)

    def holds(self, shard: int) -> bool:
        """Tell whether this process has the lease of a shard."""
        return shard in self._held and self._leases[shard].seconds_left() > 0

    def problem(self) -> str | None:
        """Return why the leases can be neither read nor taken, None if they can."""
        return self._problem

    async def _look_around(self) -> int | None:
        """Look at all leases and do what is to be done; return a shard that was acquired."""
        for _ in self._leases:
            claim = await self._do_what_is_due()
            if claim is None:
                return None
            lease = self._leases[claim]
            acquired = await lease.try_to_lead()
            self._problem = lease.problem()
            if acquired:
                self._held.add(claim)
                return claim
            if self._problem is not None:
                return None
            # Another process was faster; another shard may still be free.
        return None

    async def _do_what_is_due(self) -> int | None:
        """Look at all leases, ask for one and give one up; return which shard to claim."""
        others = [lease for shard, lease in enumerate(self._leases) if shard not in self._held]
        try:
            async with asyncio.timeout(self._seconds * _PATIENCE):
                await asyncio.gather(*(lease.look() for lease in others))
        except (errors.ApiError, TimeoutError) as error:
            self._note(f"cannot read the leases: {one_line(str(error)) or 'timed out'}")
            return None
        moves = next_moves(self._all_seen(), self._identity, self._seconds * _PATIENCE)
        if moves.request is not None:
            await self._leases[moves.request].request()
        if moves.release is not None:
            await self._give_up(moves.release)
        if moves.claim is None:
            self._problem = None
        return moves.claim

    @property
    def _all_are_held(self) -> bool:
        return all(lease.holder for lease in self._all_seen())

    def _all_seen(self) -> list[Seen]:
        return [self._seen(shard) for shard in range(len(self._leases))]

    def _seen(self, shard: int) -> Seen:
        lease = self._leases[shard]
        if shard in self._held:
            return Seen(self._identity, requested_by=lease.requested_by)
        free_for = lease.free_for()
        return Seen("" if free_for >= 0 else lease.holder, free_for, lease.requested_by)

    async def _notify(self, shard: int) -> None:
        logger.info("acquired shard %d of %d", shard, len(self._leases))
        if self._worker is not None:
            await self._worker.gain(shard)

    async def _give_up(self, shard: int) -> None:
        logger.info(
            "releasing shard %d of %d to %s",
            shard,
            len(self._leases),
            one_line(self._leases[shard].requested_by),
        )
        if self._worker is not None:
            await self._worker.lose(shard)
        keeping = self._keeping.pop(shard)
        keeping.cancel()
        await asyncio.wait({keeping})
        self._held.discard(shard)
        await self._leases[shard].release()

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            logger.warning("%s", problem)
        self._problem = problem
