"""How measured values are written, and quantiles of them."""

from collections.abc import Sequence


def seconds(value: float) -> str:
    """Write seconds, small ones as milliseconds."""
    return f"{value:.1f} s" if value >= 1 else f"{1000 * value:.0f} ms"


def percent(share: float) -> str:
    """Write a share of one."""
    return f"{100 * share:.1f} %"


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which so large a share of the values lies."""
    known = sorted(values)
    return known[min(len(known) - 1, int(share * len(known)))]
