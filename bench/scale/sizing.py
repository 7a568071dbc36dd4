"""What an operator is to be given for so many jobs, from what was measured of it."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bench.scale.life import Life
from bench.scale.promises import OURS
from bench.scale.results import Results
from bench.scale.words import percent
from tools.pages import table

_HEAD = (
    "jobs that train",
    "peak of memory",
    "of a core",
    "requests: cpu, memory",
    "limits: memory",
)

_MEMORY_STEP = 64
"""MiB. The limit is twice the peak: a listing after a start and a burst come at the same time."""
_CPU_STEP = 50
"""Thousandths of a core. Requested is twice the share while all report, as failures come beside."""


def sizing(results: Results) -> str:
    """Return a table for the chart's values, "" without a round of ours with jobs that report."""
    rows = [
        _row(jobs, life.memory, life.steady)
        for (jobs, who), lives in sorted(results.lives.items())
        if who == OURS and (life := _medians(list(lives.values()))) is not None
    ]
    return table(_HEAD, rows) if rows else ""


class _Need(NamedTuple):
    memory: float
    steady: float


def _medians(lives: Sequence[Life]) -> _Need | None:
    known = [(x.memory, x.steady) for x in lives if x.memory is not None and x.steady is not None]
    if not known:
        return None
    memory, steady = zip(*known, strict=True)
    return _Need(statistics.median(memory), statistics.median(steady))


def _row(jobs: int, memory: float, steady: float) -> tuple[str, ...]:
    peak = memory * 1e6 / 2**20
    limit = _up(2 * peak, _MEMORY_STEP)
    requests = f"{_up(2000 * steady, _CPU_STEP)}m, {_up(peak, _MEMORY_STEP)}Mi"
    return str(jobs), f"{memory:.0f} MB", percent(steady), requests, f"{limit}Mi"


def _up(value: float, step: int) -> int:
    return math.ceil(value / step) * step
