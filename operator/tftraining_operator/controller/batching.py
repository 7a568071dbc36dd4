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
"""Jobs that wait for a pass; what a few wait for is worked on at once."""
MOMENT = 0.05
"""How long (s) what has arrived waits for more. A new job makes five calls in a row."""

_Ready = list[tuple[selectors.SelectorKey, int]]


class BatchingSelector(selectors.DefaultSelector):
    """A selector that waits for more events while `waiting()` tells of many jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: Callable[[], int] = lambda: 0

    def select(self, timeout: float | None = None) -> _Ready:
        """Return what is ready: after a moment, unless there is other work already."""
        ready = super().select(timeout)
        if not ready or timeout == 0 or self.waiting() < MANY:
            return ready
        time.sleep(MOMENT)
        return super().select(0)


def loop(selector: BatchingSelector) -> asyncio.AbstractEventLoop:
    """Return an event loop that uses this selector."""
    return asyncio.SelectorEventLoop(selector)
