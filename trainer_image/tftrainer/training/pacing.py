"""Chooses how many steps one scheduled function makes; used by the training loops. Pure.

More steps per call mean fewer round trips; fewer keep SIGTERM, the watchdog and gRPC's keepalive
(which cuts calls of more than about a minute) responsive. So the number follows the speed.
"""

_LIMIT = 10_000
_GROWTH = 4


class Pace:
    """Adapts the steps per call so that one call takes the time wanted."""

    def __init__(self, *, seconds: float, fixed: int | None = None) -> None:
        self._seconds = seconds
        self._fixed = fixed
        self.steps = fixed or 1

    def follow(self, steps_per_second: float | None) -> None:
        """Take note of the speed of one worker; None if it is not known yet."""
        if self._fixed is None:
            self.steps = steps_per_call(self.steps, steps_per_second, self._seconds)


def steps_per_call(current: int, steps_per_second: float | None, seconds: float) -> int:
    """Return the next number of steps, for one worker of this speed."""
    if steps_per_second is None:
        return current
    wanted = round(steps_per_second * seconds)
    return max(1, min(wanted, current * _GROWTH, _LIMIT))
