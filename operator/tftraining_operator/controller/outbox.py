"""Events on their way to the API server: a pass waits for none of its own.

Made by runtime.py around the recorder. Where events are answered slowly, as by an admission
webhook, a worker that failed would otherwise be replaced that much later.
"""

import asyncio
import contextlib

from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.core.events import Event
from tftraining_operator.reconcile.protocols import Record


class Outbox:
    """Records events beside the passes: of each job in their order, those of one pass at a time."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._under_way: dict[str, asyncio.Future[None]] = {}
        """By the uid of the job."""

    async def __call__(self, job: ObjectMeta, events: list[Event]) -> None:
        """Begin to record events, once the job's earlier ones are recorded."""
        if not events:
            return
        while (earlier := self._under_way.get(job.uid)) is not None:
            await asyncio.wait([earlier])
        task = self._under_way[job.uid] = asyncio.ensure_future(self._record(job, events))
        task.add_done_callback(lambda _: self._under_way.pop(job.uid))

    async def close(self, seconds: float) -> None:
        """Give what is under way so much time, and then give it up."""
        ends = asyncio.gather(*self._under_way.values(), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ends, seconds)
