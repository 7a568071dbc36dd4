"""Lets what arrives within a moment share one turn of the event loop, where very many jobs wait.

Each time that a process is woken it continues with cold caches. With three shards beside an API
server on two cores that was a third of all that a job cost them.
"""

import asyncio
import selectors
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 250
"""Jobs that wait for a pass; what fewer wait for is worked on at once."""
LONGEST = 0.1
"""The longest moment (s). A new job makes five calls in a row."""
AT_ONCE = 8
"""Connections that are read from in a turn. What their answers are for takes some milliseconds."""
_OF_A_CALL = 0.5
"""So much of how long calls take: of a fast API server nothing is waited for in vain."""
_NEWS = 0.05
"""The share of the last call in that."""

_Ready = list[tuple[selectors.SelectorKey, int]]


class Moment:
    """For how long (s) what has arrived may wait for more."""

    def __init__(self, waiting: "Callable[[], int]") -> None:
        """Let `waiting` count the jobs that wait for a pass."""
        self._waiting = waiting
        self._call = 0.0

    def took(self, seconds: float) -> None:
        """Note how long a call took."""
        self._call += (seconds - self._call) * _NEWS

    def __call__(self) -> float:
        """Return it: 0 where few jobs wait."""
        return min(self._call * _OF_A_CALL, LONGEST) if self._waiting() >= MANY else 0.0


class BatchingSelector(selectors.DefaultSelector):
    """A selector that waits for more than the first events, for a `moment` (s).

    And divides what there is then among several turns, each of which is as short as without it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.moment: Callable[[], float] = lambda: 0.0
        self._left: dict[int, int] = {}
        """File descriptors of what was left in the last turn, with their places in this one."""

    def select(self, timeout: float | None = None) -> _Ready:
        """Return what is ready: after a moment, unless there is other work already."""
        ready = super().select(timeout)
        others = timeout == 0 or self._left
        if ready and not others and (moment := self.moment()) > 0:
            time.sleep(moment)
            ready = super().select(0)
        ready.sort(key=lambda each: self._left.get(each[0].fd, len(self._left)))
        self._left = {key.fd: place for place, (key, _) in enumerate(ready[AT_ONCE:])}
        return ready[:AT_ONCE]


def loop(selector: BatchingSelector) -> asyncio.AbstractEventLoop:
    """Return an event loop that uses this selector."""
    return asyncio.SelectorEventLoop(selector)
