"""A keyed work queue: no key twice at a time, none forgotten, failures retried with backoff.

Fed by watches, timers and the poller; calls the pass. Knows nothing of Kubernetes. Keys take turns:
one that asks for the next pass at once, or whose passes fail, delays no other. So do the groups of
keys, which namespaces are: one with thousands of keys delays no other. What is routine, such as
progress to write, comes after all else, though not for ever.
"""

import asyncio
import contextlib
import logging
import random
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.turns import Turns

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 60.0
IMMEDIATE_PASSES = 5
"""So many passes in a row may ask for the next one at once; further ones are delayed."""
LONGEST_DELAY = 5.0
"""The longest delay of a pass that is asked for at once."""
SOON = 0.1
"""The moment (s) in which events that no one waits for share a pass,"""
_SOON_A_KEY = 0.01
"""longer with so many keys that their passes would be a large part of all work,"""
_LATEST = 10.0
"""up to this."""
NEXT_ROUTINE = 0.5
"""How long (s) after a pass the next one over its key comes at the earliest, if it is routine:
what happens to the key until then shares it."""
PATIENCE = 10.0
"""How long (s) routine passes wait for others at most."""


class Routine(float):
    """In how many seconds to call again for something that waits while there is other work."""


class WorkQueue(Generic[K]):
    """Calls `handle(key)` for every added key; what it returns is when to call again (s).

    Of the `workers`, which are the passes at once, at most half may be of one group, and a quarter
    routine: what is urgent finds one.
    """

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        *,
        workers: int,
        clock: Callable[[], float] = time.monotonic,
        group: Callable[[K], Hashable] = lambda _key: None,
    ) -> None:
        self._handle = handle
        self._workers = workers
        self._clock = clock
        self._group = group
        self._urgent: Turns[K] = Turns(group)
        self._routine: Turns[K] = Turns(group)
        self._working: dict[K, float] = {}
        self._routinely: set[K] = set()
        """Of these, the keys of routine passes."""
        self._ended = asyncio.Event()
        self._busy: Counter[Hashable] = Counter()
        self._again: dict[K, bool] = {}
        """Keys to work on again after their present pass, and whether that is routine."""
        self._timers: dict[bool, dict[K, asyncio.TimerHandle]] = {False: {}, True: {}}
        """Those of routine passes apart: when what is urgent is due, it may not be one."""
        self._expected: dict[K, asyncio.TimerHandle] = {}
        """When to ask whether a pass is due."""
        self._failures: dict[K, int] = {}
        self._immediate: dict[K, int] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._begins = False
        """Whether a pass begins in the next turn of the loop."""
        self._moved = clock()

    def add(self, key: K, *, routine: bool = False) -> None:
        """Ask for a pass over `key`, soon; while one runs, for another after it."""
        if key in self._working:
            self._again[key] = routine and self._again.get(key, True)
        elif key not in self._urgent and not (routine and key in self._routine):
            since = self._routine.discard(key)
            waiting = self._routine if routine else self._urgent
            waiting.add(key, self._clock() if since is None else since)
            self._dispatch()

    def add_soon(self, key: K, among: int = 1) -> None:
        """Ask for a routine pass in a moment: what happens to the key until then shares it.

        The moment depends on how many keys there are.
        """
        if key not in self._urgent:
            moment = max(SOON, min(among * _SOON_A_KEY, _LATEST))
            self._add_by(key, moment, routine=True)

    def give_way(self, key: K) -> bool:
        """Let a routine pass over a key follow its present one, if others wait that are not so.

        Return whether they do, and what the present pass has yet to do may be left to that one.
        """
        if self._urgent:
            self.add(key, routine=True)
        return bool(self._urgent)

    def add_after(self, key: K, seconds: float, *, routine: bool = False) -> None:
        """Ask for a pass in `seconds`, instead of at the time asked for before."""
        timers = self._timers[routine]
        _cancel(timers, key)
        timers[key] = asyncio.get_running_loop().call_later(
            max(0.0, seconds), self._fire, key, routine
        )

    def add_when(self, key: K, due: Callable[[K], float]) -> None:
        """Ask for a routine pass once `due(key)` is 0, unless one comes before, or its pass failed.

        `due` tells in how many seconds to ask it again.
        """
        if key in self._urgent or key in self._routine or key in self._failures:
            return
        seconds = due(key)
        if seconds <= 0:
            self.add(key, routine=True)
            return
        if _is_later(self._expected.get(key), seconds):
            _cancel(self._expected, key)
            self._expected[key] = asyncio.get_running_loop().call_later(
                seconds, self._expect, key, due
            )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                self._dispatch()
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    def oldest_age(self) -> float:
        """Return how long (s) the oldest key has been waiting or in work."""
        since = [*self._urgent.since(), *self._routine.since(), *self._working.values()]
        return self._clock() - min(since) if since else 0.0

    def stuck_for(self) -> float:
        """Return how long (s) nothing has moved although keys wait or are in work.

        However many wait, and however long: a queue of which passes begin and end works.
        """
        return min(self.oldest_age(), self._clock() - self._moved)

    def moved(self) -> None:
        """Note that a pass has come further."""
        self._moved = self._clock()

    async def ended(self, concerned: Callable[[K], bool]) -> None:
        """Wait until no pass over such a key runs."""
        while any(concerned(key) for key in self._working):
            self._ended.clear()
            await self._ended.wait()

    def depth(self) -> int:
        """Return how many keys wait for a pass."""
        return len(self._urgent) + len(self._routine)

    def retrying(self) -> int:
        """Return of how many keys the last pass failed."""
        return len(self._failures)

    def _dispatch(self) -> None:
        """Begin passes while there are keys and workers for them: one in a turn of the loop.

        What some do before their first call takes long.
        """
        if self._tasks is None or self._begins or len(self._working) >= self._workers:
            return
        if (key := self._take()) is None:
            return
        self._working[key] = self._clock()
        self.moved()
        self._busy[self._group(key)] += 1
        self._tasks.create_task(self._work(key))
        self._begins = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._begins = False
        self._dispatch()

    def _take(self) -> K | None:
        oldest = self._routine.oldest()
        overdue = oldest is not None and self._clock() - oldest > PATIENCE
        turns = (self._routine, self._urgent) if overdue else (self._urgent, self._routine)
        for waiting in turns:
            routine = waiting is self._routine
            if routine and len(self._routinely) >= max(1, self._workers // 4):
                continue
            if (key := waiting.take(self._may_work)) is not None:
                if routine:
                    self._routinely.add(key)
                return key
        return None

    def _may_work(self, group: Hashable) -> bool:
        # Without groups, all keys are of one.
        return group is None or self._busy[group] < max(1, self._workers // 2)

    async def _work(self, key: K) -> None:
        try:
            await self._pass(key)
        finally:
            del self._working[key]
            self._routinely.discard(key)
            self.moved()
            self._ended.set()
            self._busy[self._group(key)] -= 1
            if not self._busy[self._group(key)]:
                del self._busy[self._group(key)]
            if (routine := self._again.pop(key, None)) is not None:
                self.add(key, routine=routine)
            self._dispatch()

    async def _pass(self, key: K) -> None:
        for timers in (*self._timers.values(), self._expected):
            _cancel(timers, key)
        try:
            wake_in = await self._handle(key)
        except Exception as error:  # noqa: BLE001 - whatever a pass raises, its key is not lost
            self.add_after(key, self._backoff(key, error))
        else:
            self._failures.pop(key, None)
            if wake_in is None or wake_in > 0:
                self._immediate.pop(key, None)
            if isinstance(wake_in, Routine):
                self._add_by(key, max(wake_in, NEXT_ROUTINE), routine=True)
            elif wake_in is not None:
                self._add_by(key, wake_in if wake_in > 0 else self._delay(key))

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

    def _add_by(self, key: K, seconds: float, *, routine: bool = False) -> None:
        """Ask for a pass in `seconds`, unless it is asked for earlier already."""
        earlier = (self._timers[each].get(key) for each in {False, routine})
        if all(_is_later(timer, seconds) for timer in earlier):
            self.add_after(key, seconds, routine=routine)

    def _fire(self, key: K, routine: bool) -> None:  # noqa: FBT001 - a loop's callback
        self._timers[routine].pop(key, None)
        self.add(key, routine=routine)

    def _expect(self, key: K, due: Callable[[K], float]) -> None:
        self._expected.pop(key, None)
        self.add_when(key, due)


def _is_later(timer: asyncio.TimerHandle | None, seconds: float) -> bool:
    """Tell whether a timer ends later than in `seconds`, or there is none."""
    return timer is None or timer.when() > asyncio.get_running_loop().time() + seconds


def _cancel(timers: dict[K, asyncio.TimerHandle], key: K) -> None:
    with contextlib.suppress(KeyError):
        timers.pop(key).cancel()
