"""Turns for what can wait, writes above all: of all jobs together, only so many in a second."""

from datetime import datetime, timedelta

_SHARE = 0.2
"""For no more of the time one of them is under way: a server that is late has enough to do."""
_NEWS = 0.2
"""The share of the last write in how long they take."""
_URGENT = timedelta(seconds=1)
_GIVES_WAY = 4
"""So many times as far apart writes are for that long after something urgent."""
UNUSED = timedelta(seconds=1)
"""Of so long what nobody used can be made up for."""


class Pace:
    """Gives turns, so many a second; after a second without any, as many at once.

    Whose turn it is waits longer where writes take long. That is asked only then: a server that was
    late when a thousand turns were given may not be any more when they come.
    """

    def __init__(self, per_second: int) -> None:
        self._between = timedelta(seconds=1) / per_second
        self.write = timedelta(0)
        """How long a write takes."""
        self._last: datetime | None = None
        self._free: datetime | None = None
        self._urgent: datetime | None = None
        """When something urgent was done last."""

    def turn(self, now: datetime) -> datetime:
        """Return when the next one may write: now, or later. The turn is taken by that."""
        self._last = _later(self._last, now) + self._between
        return max(now, self._last)

    def begin(self, now: datetime) -> datetime:
        """Return when one whose turn it is may write: now, which it does then, or later."""
        free = _later(self._free, now)
        if free > now:
            return max(free, self.turn(now))
        since = None if self._urgent is None else now - self._urgent
        is_urgent = since is not None and timedelta(0) <= since < _URGENT
        self._free = free + self.write / _SHARE * (_GIVES_WAY if is_urgent else 1)
        return now

    def give_way(self, now: datetime) -> None:
        """Note that something urgent is done, which the server is to have more time for."""
        self._urgent = now

    def took(self, duration: timedelta) -> None:
        """Note how long a write took."""
        self.write += (duration - self.write) * _NEWS


def _later(moment: datetime | None, now: datetime) -> datetime:
    unused = now - UNUSED
    return unused if moment is None else max(moment, unused)
