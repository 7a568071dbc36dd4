"""Lets what arrives within a moment share one turn of the event loop, where very many jobs wait.

Each time that a process is woken it continues with cold caches. With three shards beside an API
server on two cores that was a third of all that a job cost them.
"""

import selectors
import time
from collections.abc import Callable

MANY = 250
"""Jobs that wait for a pass; what fewer wait for is worked on at once."""
LONGEST = 0.1
"""The longest moment (s). A new job makes five calls in a row."""
_OF_A_CALL = 0.5
"""So much of how long calls take: of a fast API server nothing is waited for in vain."""
_NEWS = 0.05
"""The share of the last call in that."""

_Ready = list[tuple[selectors.SelectorKey, int]]


class Moment:
    """For how long (s) what has arrived may wait for more."""

    def __init__(self, waiting: Callable[[], int]) -> None:
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
    """A selector that waits for more than the first events, for a `moment` (s)."""

    def __init__(self) -> None:
        super().__init__()
        self.moment: Callable[[], float] = lambda: 0.0

    def select(self, timeout: float | None = None) -> _Ready:
        """Return what is ready: after a moment, unless there is other work already."""
        ready = super().select(timeout)
        if not ready or timeout == 0 or (moment := self.moment()) <= 0:
            return ready
        time.sleep(moment)
        return super().select(0)
