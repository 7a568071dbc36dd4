"""A job as HTML, for notebooks. Colours are the notebook's own, so that dark themes work."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.job import Job

from tftraining.view import training
from tftraining.view.table import colour
from tftraining.view.why import why

_Object = dict[str, Any]

_WIDTH, _HEIGHT = 320, 48
_MIN_POINTS = 2
# Readable on white and on black.
_COLOURS = {"green": "#2e8b57", "cyan": "#2a8ca8", "yellow": "#b8860b", "red": "#d03c3c"}
_ROLE_COLOURS = {**_COLOURS, "magenta": "#a855a8"}


def job(
    raw: _Object,
    found: Job | None,
    pods: Sequence[_Object],
    now: datetime,
    losses: Sequence[float] = (),
) -> str:
    """Return a job with its state, progress and roles; `losses` are drawn as a curve.

    `found` is the parsed job, None if the operator refuses what is stored.
    """
    answer = why(raw, pods, (), now)
    shade = _COLOURS[colour(answer.state.partition(" ")[0])]
    head = (
        f"<div><b>{escape(raw['metadata']['name'])}</b> "
        f'<span style="color:{shade};font-weight:bold">{escape(answer.state)}</span> '
        f"{escape(answer.text)}</div>"
    )
    rest = (_bar(found), curve(losses), _roles(found, pods, now)) if found is not None else ()
    return f'<div style="font-family:monospace;line-height:1.6">{head}{"".join(rest)}</div>'


def curve(values: Sequence[float]) -> str:
    """Return a curve of the losses as SVG with its first and last value; "" for less than two."""
    finite = [value for value in values if abs(value) < float("inf")]
    if len(finite) < _MIN_POINTS:
        return ""
    low, high = min(finite), max(finite)
    across, up = _WIDTH / (len(finite) - 1), (_HEIGHT - 4) / ((high - low) or 1.0)
    points = " ".join(
        f"{at * across:.1f},{2 + (high - value) * up:.1f}" for at, value in enumerate(finite)
    )
    label = f"loss {finite[0]:.4g} to {finite[-1]:.4g}"
    return (
        f'<div>loss {finite[0]:.4g} <svg width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{label}" style="vertical-align:middle"><polyline points="{points}" '
        'fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
        f" {finite[-1]:.4g}</div>"
    )


def _bar(found: Job) -> str:
    progress = found.status.progress
    if progress is None:
        return ""
    if not progress.total_steps:
        return f"<div>{escape(training.rates(found))}</div>"
    return (
        f'<div><progress max="{progress.total_steps}" value="{progress.step}" '
        f'style="width:{_WIDTH}px;vertical-align:middle" aria-label="training"></progress> '
        f"{escape(training.rates(found))}</div>"
    )


def _roles(found: Job, pods: Sequence[_Object], now: datetime) -> str:
    if not pods or is_finished(found.status):
        return ""  # nothing more is to become ready
    return "".join(
        f'<div style="color:{_role_colour(role)};white-space:pre">{escape(text)}</div>'
        for role, text in training.role_lines(found, pods, now)
    )


def _role_colour(role: Role) -> str:
    return _ROLE_COLOURS[training.ROLE_COLOURS[role]]
