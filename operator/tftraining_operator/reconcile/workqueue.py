"""A keyed work queue: no key twice at a time, none forgotten, failures retried with backoff.

Fed by watches, timers and the poller; calls the pass. Knows nothing of Kubernetes. Keys take turns:
one that asks for the next pass at once, or whose passes fail, delays no other.
"""

import asyncio
import contextlib
import logging
import random
import time
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from tftraining_operator.core.text import one_line

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 60.0
IMMEDIATE_PASSES = 5
"""So many passes in a row may ask for the next one at once; further ones are delayed."""
LONGEST_DELAY = 5.0
"""The longest delay of a pass that is asked for at once."""


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
        self._immediate: dict[K, int] = {}
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

    def depth(self) -> int:
        """Return how many keys wait for a pass."""
        return len(self._ready)

    def retrying(self) -> int:
        """Return of how many keys the last pass failed."""
        return len(self._failures)

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
            if wake_in is None or wake_in > 0:
                self._immediate.pop(key, None)
            if wake_in is not None:
                self.add_after(key, wake_in if wake_in > 0 else self._delay(key))

    def _delay(self, key: K) -> float:
        """Return when a key that asks for the next pass at once gets it."""
        asked = self._immediate[key] = self._immediate.get(key, 0) + 1
        if asked <= IMMEDIATE_PASSES:
            return 0.0
        if asked == IMMEDIATE_PASSES + 1:
            logger.warning("%s: %d passes in a row asked for another at once", key, asked)
        doublings: int = 2 ** min(asked - IMMEDIATE_PASSES - 1, 20)
        return min(FIRST_BACKOFF * doublings, LONGEST_DELAY)

    def _backoff(self, key: K, error: Exception) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        doublings: int = 2 ** min(failures, 20)
        jitter = random.uniform(0.75, 1.25)  # noqa: S311 - not a secret
        delay = min(FIRST_BACKOFF * doublings, LONGEST_BACKOFF) * jitter
        # An error may know better, as HTTP's Retry-After does.
        delay = max(delay, getattr(error, "retry_after", None) or 0.0)
        expected = getattr(error, "message", None) is not None
        where = (
            "" if expected else "\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip()
        )
        what = one_line(str(error)) if expected else one_line(f"{type(error).__name__}: {error}")
        # The frames hold our code only; the error's text may be a tenant's.
        logger.warning("%s: pass failed, retrying in %.1f s: %s%s", key, delay, what, where)
        return delay

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        with contextlib.suppress(KeyError):
            self._timers.pop(key).cancel()
