"""Looks at many jobs that nobody has looked at for a while; used by runtime.py.

After a start, where a shard or a namespace is gained, and when Kueue comes or goes. All passes at
once would delay those over what fails meanwhile, and take the processor from other shards.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Protocol

from tftraining_operator.core.first_look import is_at_rest
from tftraining_operator.reconcile.store import JobKey, Kind, Store

_AT_ONCE = 25
"""Jobs that are sorted in one turn of the loop, in some 5 ms."""
_AT_REST_A_SECOND = 250
"""Jobs at rest that are looked at in a second, at most: a quarter of a core."""
_PAUSES = 3
"""The pause before the next one, to the time by which the event loop was late after the last."""


class Look(Protocol):
    """Asks for a pass."""

    def __call__(self, key: JobKey, *, routine: bool = False) -> None: ...  # noqa: D102


class FirstLooks:
    """Asks for passes over jobs: at once, or one by one for those at rest, after the others."""

    def __init__(self, store: Store, look: Look, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._look = look
        self._clock = clock

    def begin(self, keys: Iterable[JobKey]) -> None:
        """Look at these jobs, beside all else; a loop that ends meanwhile looks no further."""
        self._sort(iter(list(keys)), [])

    def _sort(self, keys: Iterator[JobKey], at_rest: list[JobKey]) -> None:
        some = list(islice(keys, _AT_ONCE))
        for key in some:
            if self._is_at_rest(key):
                at_rest.append(key)
            else:
                self._look(key)
        if some:
            asyncio.get_running_loop().call_soon(self._sort, keys, at_rest)
        else:
            self._look_at_next(iter(at_rest))

    def _is_at_rest(self, key: JobKey) -> bool:
        raw = self._store.job(key)
        return raw is not None and is_at_rest(
            raw, self._store.children(Kind.POD, key), self._clock()
        )

    def _look_at_next(self, at_rest: Iterator[JobKey]) -> None:
        key = next(at_rest, None)
        if key is not None:
            self._look(key, routine=True)
            loop = asyncio.get_running_loop()
            due = loop.time() + 1 / _AT_REST_A_SECOND
            loop.call_at(due, self._pause, at_rest, due)

    def _pause(self, at_rest: Iterator[JobKey], due: float) -> None:
        """Leave the processor to others for some times as long as it was not free."""
        loop = asyncio.get_running_loop()
        loop.call_later(_PAUSES * (loop.time() - due), self._look_at_next, at_rest)
