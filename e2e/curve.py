"""A curve of a loss for a terminal, drawn with blocks."""

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = " ▁▂▃▄▅▆▇█"
_EIGHTHS = len(_BLOCKS) - 1


def curve(points: Sequence[tuple[int, float]], *, width: int = 60, height: int = 8) -> list[str]:
    """Return lines that show values by step, with the highest and the lowest; [] for less than two.

    `points` are steps and values, by step; between two points it is a line.
    """
    if len(points) < 2:
        return []
    first, last = points[0][0], points[-1][0]
    values = [value for _, value in points]
    low, high = min(values), max(values)
    columns = [
        _level(_at(points, first + (last - first) * column / (width - 1)), low, high, height)
        for column in range(width)
    ]
    rows = [
        "".join(_BLOCKS[max(0, min(_EIGHTHS, level - row * _EIGHTHS))] for level in columns)
        for row in reversed(range(height))
    ]
    labels = [f"{high:.4g}", *[""] * (height - 2), f"{low:.4g}"]
    margin = max(map(len, labels))
    begin, end = f"step {first}", f"step {last}"
    steps = f"{'':{margin}}  {begin}{end:>{max(width - len(begin), len(end) + 1)}}"
    drawn = [f"{label:>{margin}} │{row}" for label, row in zip(labels, rows, strict=True)]
    return [*(line.rstrip() for line in drawn), steps]


def _at(points: Sequence[tuple[int, float]], step: float) -> float:
    """Return the value on the line between the two points around a step."""
    for (begin, before), (end, after) in pairwise(points):
        if step <= end:
            return before + (after - before) * (step - begin) / (end - begin)
    return points[-1][1]


def _level(value: float, low: float, high: float, height: int) -> int:
    """Return the height of a value in eighths of a line; the lowest is one eighth high."""
    most = height * _EIGHTHS
    return 1 + round((value - low) / (high - low) * (most - 1)) if high > low else most // 2
