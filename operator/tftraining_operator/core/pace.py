"""Turns for writes that can wait: of all jobs together, no more in a second than there may be."""

from datetime import datetime, timedelta

_SHARE = 0.5
"""For no more of the time one of them is under way: a server that is late has enough to do."""
_NEWS = 0.2
"""The share of the last write in how long they take."""


class Pace:
    """Gives turns, so many a second; after a second without any, as many at once.

    Fewer where writes take long.
    """

    def __init__(self, per_second: int) -> None:
        self._shortest = self._between = timedelta(seconds=1) / per_second
        self.write = timedelta(0)
        """How long a write takes."""
        self._last: datetime | None = None

    def turn(self, now: datetime) -> datetime:
        """Return when the next one may write: now, or later. The turn is taken by that."""
        unused = now - timedelta(seconds=1)
        last = unused if self._last is None else max(self._last, unused)
        self._last = last + self._between
        return max(now, self._last)

    def took(self, duration: timedelta) -> None:
        """Note how long a write took."""
        self.write += (duration - self.write) * _NEWS
        self._between = max(self._shortest, self.write / _SHARE)
