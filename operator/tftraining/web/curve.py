"""The course of a loss as a drawing (SVG) with its words beside it. Pure."""

import math
from collections.abc import Iterator, Sequence

from tftraining.view.training import Point
from tftraining.web.markup import Markup, tag

_WIDTH, _HEIGHT = 600, 160
"""Of the drawing, which the page stretches to its own width."""
_EDGE = 2
_MIN_POINTS = 2
_GREATEST = 1e30
"""Values beyond it are drawn like nan, as their differences may be infinite."""


def curve(points: Sequence[Point]) -> Markup | None:
    """Return the losses as a figure, None for less than two numbers.

    `points` are steps, ascending, and losses; one that is no number interrupts the line.
    """
    finite = [point for point in points if _drawable(point[1])]
    if len(finite) < _MIN_POINTS:
        return None
    said = words(finite)
    low, high = _range(finite)
    drawing = tag(
        "svg",
        _lines(points, finite),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Curve of the loss: {said}",
    )
    steps = f"steps {finite[0][0]} to {finite[-1][0]}"
    parts = (
        tag("div", tag("span", f"{high:.3g}"), class_="scale", aria_hidden="true"),
        drawing,
        tag(
            "div",
            (tag("span", f"{low:.3g}"), tag("span", steps)),
            class_="scale",
            aria_hidden="true",
        ),
        tag("figcaption", said),
    )
    return tag("figure", parts)


def words(points: Sequence[Point]) -> str:
    """Return in words what the curve shows: its two ends and the lowest loss."""
    (first, begin), (last, end) = points[0], points[-1]
    lowest, least = min(points, key=lambda point: point[1])
    return (
        f"loss {begin:.4g} at step {first}, {end:.4g} at step {last}; "
        f"lowest {least:.4g} at step {lowest}"
    )


def _lines(points: Sequence[Point], finite: Sequence[Point]) -> Iterator[Markup]:
    """Yield one line for each run of finite values."""
    low, high = _range(finite)
    first, last = finite[0][0], finite[-1][0]
    across = (_WIDTH - 2 * _EDGE) / ((last - first) or 1)
    up = (_HEIGHT - 2 * _EDGE) / (high - low)
    run: list[str] = []
    for step, value in [*points, (0, math.nan)]:
        if _drawable(value):
            x, y = _EDGE + (step - first) * across, _EDGE + (high - value) * up
            run.append(f"{x:.1f},{y:.1f}")
        elif run:
            # A line of one point has no length; round ends make it a dot.
            path = "M" + " L".join(run if len(run) > 1 else run * 2)
            yield tag("path", d=path, class_="curve")
            run = []


def _drawable(value: float) -> bool:
    return abs(value) < _GREATEST  # False for nan


def _range(points: Sequence[Point]) -> tuple[float, float]:
    """Return the least and the greatest value, which differ."""
    values = [value for _, value in points]
    low, high = min(values), max(values)
    around = abs(low) / 10 or 1.0
    return (low, high) if high > low else (low - around, high + around)
