"""Events on their way to the API server: a pass waits for none of its own.

Made by runtime.py around the recorder. Where events are answered slowly, as by an admission
webhook, a worker that failed would otherwise be replaced that much later; and hundreds of jobs that
start would have all connections, and leave none to leases and pods.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.core.events import Event
from tftraining_operator.reconcile.limits import EVENTS, Limits
from tftraining_operator.reconcile.protocols import Record
from tftraining_operator.reconcile.store import JobKey

_MOST = 8
"""Batches of one job that wait; the pass with the next one waits for the first of them."""


class Outbox:
    """Records events beside the passes: of each job in their order, those of some jobs at once."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._limits = Limits(most=EVENTS, namespace=EVENTS // 2)
        self._under_way: dict[str, list[asyncio.Task[None]]] = {}
        """By the uid of the job; each batch follows the one before."""

    async def __call__(self, job: ObjectMeta, events: list[Event]) -> None:
        """Have events recorded once the job's earlier ones are."""
        if not events:
            return
        while len(batches := self._under_way.setdefault(job.uid, [])) >= _MOST:
            await asyncio.wait(batches[:1])
        task = asyncio.create_task(self._send(batches[-1:], job, events))
        batches.append(task)
        task.add_done_callback(partial(self._sent, job.uid))

    async def close(self, seconds: float) -> None:
        """Give what is under way so much time, and then give it up."""
        tasks = (task for batches in self._under_way.values() for task in batches)
        ends = asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ends, seconds)

    async def _send(
        self, earlier: Sequence[asyncio.Task[None]], job: ObjectMeta, events: list[Event]
    ) -> None:
        if earlier:
            await asyncio.wait(earlier)
        async with self._limits.one(JobKey(job.namespace, job.name)):
            await self._record(job, events)

    def _sent(self, uid: str, task: asyncio.Task[None]) -> None:
        self._under_way[uid].remove(task)
        if not self._under_way[uid]:
            del self._under_way[uid]
