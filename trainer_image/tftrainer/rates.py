"""Steps per second, from pairs of (time, step). Pure: the time is an argument."""

from collections import deque


class StepRate:
    """The rate over the newest seconds, and over the whole run."""

    def __init__(self, now: float, step: int, *, window_seconds: float = 10.0) -> None:
        self._window = window_seconds
        self._first = (now, step)
        self._points = deque([(now, step)])

    def add(self, now: float, step: int) -> None:
        """Note that so many steps are done by now."""
        if step == self._first[1]:
            # Tracing and connecting are over when the first step is; they would spoil the rate.
            self._first = (now, step)
            self._points.clear()
        self._points.append((now, step))
        while len(self._points) > 2 and now - self._points[1][0] > self._window:  # noqa: PLR2004
            self._points.popleft()

    @property
    def recent(self) -> float | None:
        """Steps per second of late; None before there are two points."""
        return _slope(self._points[0], self._points[-1])

    @property
    def overall(self) -> float | None:
        """Steps per second since the first step."""
        return _slope(self._first, self._points[-1])


def _slope(first: tuple[float, int], last: tuple[float, int]) -> float | None:
    seconds, steps = last[0] - first[0], last[1] - first[1]
    return steps / seconds if seconds > 0 and steps > 0 else None
