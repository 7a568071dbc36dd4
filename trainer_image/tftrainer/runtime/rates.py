"""Steps or examples per second, from pairs of (time, count). Pure: the time is an argument."""

from collections import deque


class Rate:
    """The rate over the newest seconds, and over the whole run."""

    def __init__(self, now: float, count: int, *, window_seconds: float = 10.0) -> None:
        self._window = window_seconds
        self._first = (now, count)
        self._points = deque([(now, count)])

    def add(self, now: float, count: int) -> None:
        """Note that so many are done by now."""
        if count == self._first[1]:
            # Tracing and connecting are over when the first step is; they would spoil the rate.
            self._first = (now, count)
            self._points.clear()
        elif count == self._points[-1][1]:
            # Steps may be slow, or training stand still: the speed is that of the newest step.
            return
        self._points.append((now, count))
        while len(self._points) > 2 and now - self._points[1][0] > self._window:  # noqa: PLR2004
            self._points.popleft()

    @property
    def recent(self) -> float | None:
        """Recent rate per second; None before there are two points."""
        return _slope(self._points[0], self._points[-1])

    @property
    def stale_at(self) -> float:
        """Until when nothing may be added before that is longer than a slow step explains."""
        newest, before = self._points[-1][0], self._points[0][0]
        return newest + max(self._window, 2 * (newest - before))

    def is_stale(self, now: float) -> bool:
        """Whether nothing was added for longer than a slow step explains."""
        return now > self.stale_at

    @property
    def overall(self) -> float | None:
        """Per second since the first one."""
        return _slope(self._first, self._points[-1])


def _slope(first: tuple[float, int], last: tuple[float, int]) -> float | None:
    seconds, count = last[0] - first[0], last[1] - first[1]
    return count / seconds if seconds > 0 and count > 0 else None
