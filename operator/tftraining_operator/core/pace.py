"""Turns for writes that can wait: of all jobs together, no more in a second than there may be."""

from datetime import datetime, timedelta


class Pace:
    """Gives turns, so many a second; after a second without any, as many at once."""

    def __init__(self, per_second: int) -> None:
        self._between = timedelta(seconds=1) / per_second
        self._last: datetime | None = None

    def turn(self, now: datetime) -> datetime:
        """Return when the next one may write: now, or later. The turn is taken by that."""
        unused = now - timedelta(seconds=1)
        last = unused if self._last is None else max(self._last, unused)
        self._last = last + self._between
        return max(now, self._last)
