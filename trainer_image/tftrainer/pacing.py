"""How many steps one scheduled function makes. Pure.

Many steps a call spare the chief's round trips; few keep SIGTERM, the watchdog and gRPC's keepalive
(which cuts calls of more than about a minute) within reach. So the number follows the speed.
"""

_LIMIT = 10_000
_GROWTH = 4


def steps_per_call(current: int, steps_per_second: float | None, seconds: float) -> int:
    """Return the next number of steps, for one worker of this speed."""
    if steps_per_second is None:
        return current
    wanted = round(steps_per_second * seconds)
    return max(1, min(wanted, current * _GROWTH, _LIMIT))
