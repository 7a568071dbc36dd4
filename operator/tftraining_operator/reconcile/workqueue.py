"""A keyed work queue: no key twice at a time, none forgotten, failures repeated with backoff.

Knows nothing of Kubernetes.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 60.0


class WorkQueue(Generic[K]):
    """Calls `handle(key)` for every added key; what it returns is when to call again (s)."""

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        *,
        workers: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handle = handle
        self._workers = workers
        self._clock = clock
        self._ready: OrderedDict[K, float] = OrderedDict()
        self._working: dict[K, float] = {}
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wakeup = asyncio.Event()

    def add(self, key: K) -> None:
        """Ask for a pass over `key`, soon; while one runs, for another after it."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._ready:
            self._ready[key] = self._clock()
            self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for a pass in `seconds`, instead of at the time asked for before."""
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(
            max(0.0, seconds), self._fire, key
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    def stuck_for(self) -> float:
        """Return how long (s) the oldest key has been waiting or in work."""
        since = [*self._ready.values(), *self._working.values()]
        return self._clock() - min(since) if since else 0.0

    async def _work(self) -> None:
        while True:
            while not self._ready:
                self._wakeup.clear()
                await self._wakeup.wait()
            key, _ = self._ready.popitem(last=False)
            self._working[key] = self._clock()
            try:
                await self._pass(key)
            finally:
                del self._working[key]
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _pass(self, key: K) -> None:
        self._cancel_timer(key)
        try:
            wake_in = await self._handle(key)
        except Exception as error:  # noqa: BLE001 - whatever a pass raises, its key is not lost
            self.add_after(key, self._backoff(key, error))
        else:
            self._failures.pop(key, None)
            if wake_in is not None:
                self.add_after(key, wake_in)

    def _backoff(self, key: K, error: Exception) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        doublings: int = 2 ** min(failures, 20)
        jitter = random.uniform(0.75, 1.25)  # noqa: S311 - not a secret
        delay = min(FIRST_BACKOFF * doublings, LONGEST_BACKOFF) * jitter
        # An error may know better, as HTTP's Retry-After does.
        delay = max(delay, getattr(error, "retry_after", None) or 0.0)
        expected = getattr(error, "message", None) is not None
        logger.warning(
            "%s: pass failed, again in %.1f s: %s", key, delay, error, exc_info=not expected
        )
        return delay

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        with contextlib.suppress(KeyError):
            self._timers.pop(key).cancel()
