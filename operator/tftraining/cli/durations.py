"""Durations as users write them: 90, 30s, 10m, 2h, 1d."""

import re

from tftraining.errors import InputError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = re.compile(r"(\d+)([smhd]?)")


def seconds(option: str, text: str | None) -> float | None:
    """Return a duration in seconds, None for None. Raises InputError, which names the option."""
    if text is None:
        return None
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{option}: {text} is no duration: write 90, 30s, 10m, 2h or 1d")
    return float(int(found[1]) * _UNITS[found[2]])
