"""Puts what was measured into tables, for a page of the docs."""

import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from bench.scale.audit import Requests
from bench.scale.life import Life
from bench.scale.promises import promises
from bench.scale.results import Results
from bench.scale.sizing import sizing
from bench.scale.words import percent, quantile, seconds
from tools.pages import table

_Column = tuple[str, Callable[[Sequence[Life]], str]]


def markdown(results: Results) -> str:
    """Return the tables."""
    parts = [f"{os.cpu_count()} cores, medians of the rounds."]
    if found := promises(results):
        parts += [found]
    if results.lives:
        parts += [
            _table(results, _CREATION, ratio=True),
            "Where it runs, and what it needs there:",
            _table(results, _RUNNING),
            "What it asks of the API server, as that counts:",
            table(("jobs", "who", "until all run", "from the chief's exit"), _writes(results)),
        ]
    if found := sizing(results):
        parts += ["What to set in the chart's `resources`, for jobs of 8 pods:", found]
    return "\n\n".join(parts)


def _table(results: Results, columns: Sequence[_Column], *, ratio: bool = False) -> str:
    head = ["jobs", "who", "rounds", *(name for name, _ in columns)]
    rows = []
    for (jobs, who), lives in sorted(results.lives.items(), key=lambda each: each[0][0]):
        cells = [text(list(lives.values())) for _, text in columns]
        if any(cells):
            rows.append([str(jobs), who, str(len(lives)), *cells])
            if ratio:
                found = results.ratios(jobs, who, results.raw)
                rows[-1].insert(4, f"{statistics.median(found):.2f}" if found else "")
    if ratio:
        head.insert(4, "to raw")
    return table(head, rows, others="---")


def _each(text: Callable[[float], str], of: Callable[[Life], float | None]) -> Callable[..., str]:
    """Write the median of the rounds; nothing if none has the value."""

    def column(lives: Iterable[Life]) -> str:
        known = [value for life in lives if (value := of(life)) is not None]
        return text(statistics.median(known)) if known else ""

    return column


def _pooled(share: float, of: Callable[[Life], Sequence[float]]) -> Callable[..., str]:
    """Write a quantile of what all rounds have together."""

    def column(lives: Iterable[Life]) -> str:
        known = [value for life in lives for value in of(life)]
        return seconds(quantile(known, share)) if known else ""

    return column


_CREATION: tuple[_Column, ...] = (
    ("all pods exist", _each(seconds, lambda life: life.pods_exist)),
    ("all run", _each(seconds, lambda life: life.all_run)),
    ("CPU a job", _each(seconds, lambda life: life.cpu_a_job)),
    ("writes a job", _each("{:.1f}".format, lambda life: _a_job(life, life.requests.writes))),
    ("reads a job", _each("{:.1f}".format, lambda life: _a_job(life, life.requests.reads))),
    ("a small job beside", _each(seconds, lambda life: life.small)),
    ("deleted", _each(seconds, lambda life: life.deleted)),
)
_RUNNING: tuple[_Column, ...] = (
    ("failure → replacement, p50", _pooled(0.5, lambda life: life.replaced)),
    ("p99", _pooled(0.99, lambda life: life.replaced)),
    ("chief's exit → Succeeded, p50", _pooled(0.5, lambda life: life.succeeded)),
    ("p99", _pooled(0.99, lambda life: life.succeeded)),
    ("start → synced", _each(seconds, lambda life: life.synced)),
    ("all ended", _each(percent, lambda life: life.rest)),
    ("all report", _each(percent, lambda life: life.steady)),
    ("writes a second", _each("{:.1f}".format, lambda life: life.steady_writes)),
    ("RSS", _each("{:.0f} MB".format, lambda life: life.memory)),
    ("longest turn", _each(seconds, lambda life: life.stall)),
)


def _a_job(life: Life, counted: Counter[str]) -> float:
    return counted.total() / life.created


def _writes(results: Results) -> list[tuple[str, str, str, str]]:
    rows = []
    most = max(jobs for jobs, _ in results.lives)
    for (jobs, who), rounds in results.lives.items():
        if jobs == most:
            lives = list(rounds.values())
            began = _mean([life.requests for life in lives], sum(life.created for life in lives))
            ended = _mean([life.ending for life in lives], sum(len(x.succeeded) for x in lives))
            rows.append((str(jobs), who, began, ended))
    return rows


def _mean(requests: Sequence[Requests], jobs: int) -> str:
    total: Counter[str] = Counter()
    for each in requests:
        total += each.writes
    return ", ".join(f"{count / jobs:.1f} {what}" for what, count in total.most_common())
