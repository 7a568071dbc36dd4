"""Puts what was measured into tables, for a page of the docs."""

import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.scale.audit import Requests
from bench.scale.life import Life
from tools.pages import table

_LIFE = (
    "jobs",
    "who",
    "all pods exist",
    "to raw",
    "all run",
    "deleted",
    "CPU a job",
    "at rest",
    "RSS",
    "longest turn",
    "writes a job",
    "reads a job",
)


@dataclass(slots=True)
class Results:
    """All rounds, by the number of jobs and the contender's name."""

    rounds: int
    lives: dict[tuple[int, str], list[Life]] = field(default_factory=dict)
    raw: str = ""
    """The contender that the others' pods are compared with."""


def markdown(results: Results) -> str:
    """Return the tables."""
    parts = [f"{os.cpu_count()} cores, rounds: {results.rounds}, medians."]
    if results.lives:
        parts.append(table(_LIFE, [_life(results, key) for key in results.lives], others="---"))
        parts.append("Writes a job until all run, as the API server counted them:")
        parts.append(table(("who", "writes a job"), _writes(results), others="---"))
    return "\n\n".join(parts)


def _life(results: Results, key: tuple[int, str]) -> tuple[str, ...]:
    (jobs, who), lives = key, results.lives[key]
    raw = results.lives.get((jobs, results.raw))
    return (
        str(jobs),
        who,
        _seconds(life.pods_exist for life in lives),
        _ratio(lives, raw) if raw else "",
        _seconds(life.all_run for life in lives),
        _seconds(life.deleted for life in lives),
        _median((life.cpu for life in lives), lambda cpu: f"{1000 * cpu / jobs:.0f} ms"),
        _median((life.rest for life in lives), lambda share: f"{100 * share:.1f} %"),
        _median((life.memory for life in lives), lambda size: f"{size:.0f} MB"),
        _median((life.stall for life in lives), lambda stall: f"{1000 * stall:.0f} ms"),
        _median((life.requests.writes.total() / jobs for life in lives), lambda n: f"{n:.1f}"),
        _median((life.requests.reads.total() / jobs for life in lives), lambda n: f"{n:.1f}"),
    )


def _ratio(lives: Sequence[Life], raw: Sequence[Life]) -> str:
    # Of one round: the two were measured one after the other.
    ratios = [a.pods_exist / b.pods_exist for a, b in zip(lives, raw, strict=True)]
    return f"{statistics.median(ratios):.2f}"


def _writes(results: Results) -> list[tuple[str, str]]:
    most = max(jobs for jobs, _ in results.lives)
    rows = []
    for (jobs, who), lives in results.lives.items():
        if jobs == most:
            counted = _mean([life.requests for life in lives], jobs)
            parts = [f"{count:.1f} {what}" for what, count in counted.items()]
            rows.append((who, ", ".join(parts)))
    return rows


def _mean(requests: Sequence[Requests], jobs: int) -> Mapping[str, float]:
    total: Counter[str] = Counter()
    for each in requests:
        total += each.writes
    return {what: count / jobs / len(requests) for what, count in total.most_common()}


def _seconds(values: Iterable[float]) -> str:
    return f"{statistics.median(values):.1f} s"


def _median(values: Iterable[float | None], text: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return text(statistics.median(known)) if known else ""
