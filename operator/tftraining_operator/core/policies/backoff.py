"""How long what failed again and again waits before its next try: chiefs and servers alike."""

from datetime import timedelta

_FIRST = timedelta(seconds=10)
_LONGEST = timedelta(seconds=300)


def backoff(before: int) -> timedelta:
    """Return 10, 20, 40 … 300 s, after so many delays before this one."""
    # The exponent is bounded so that the shift cannot grow without end.
    delay: timedelta = _FIRST * 2 ** min(before, 10)
    return min(delay, _LONGEST)
