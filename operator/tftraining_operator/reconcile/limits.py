"""How many calls are made at once: by all jobs, those of a namespace, and one job.

Without it a job of a thousand pods, or a namespace whose admission webhook takes seconds, would
keep all calls to itself.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from tftraining_operator.reconcile.store import JobKey

ALL = 64
NAMESPACE = 32
JOB = 16
EVENTS = 32
"""Of the calls that create events, which are beside those of `ALL`."""
_SHARE = 12
"""A shard's of those of a namespace, at least. With 16 for each of three, a small job in another
namespace had its pods after 2.1 s, with these after 1.1 to 1.8 s, and with 10 after 0.7 s."""


class Limits:
    """Lets calls begin, each as soon as its job, its namespace and all together may make one.

    A namespace's are shared by all `shards`, each of which has `_SHARE` at least.
    """

    def __init__(self, shards: int = 1, *, most: int = ALL, namespace: int = NAMESPACE) -> None:
        self._namespace = max(_SHARE, namespace // shards)
        self._all = asyncio.Semaphore(most)
        # They live for as long as a call holds them or waits.
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def one(self, key: JobKey) -> AsyncIterator[None]:
        """Wait for the turn of a job's call, and hold it."""
        job, namespace = self._of(str(key), JOB), self._of(key.namespace, self._namespace)
        async with job, namespace, self._all:
            yield

    def _of(self, name: str, limit: int) -> asyncio.Semaphore:
        found = self._semaphores.get(name)
        if found is None:
            found = self._semaphores[name] = asyncio.Semaphore(limit)
        return found
