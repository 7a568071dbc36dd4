"""What the operator promises at scale, beside what was measured of it."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bench.scale.life import Life
from bench.scale.results import Results
from bench.scale.words import percent, quantile, seconds
from tools.pages import table

OURS = "ours"
_TUNED, _DEFAULTS = "tuned", "defaults"
_CREATED_TOGETHER = 200
_FEW, _MANY = 50, 1000


class _Line(NamedTuple):
    """One promise; `least` and `most` bound what was found."""

    what: str
    found: float | None
    say: Callable[[float], str]
    least: float | None = None
    most: float | None = None


def promises(results: Results) -> str:
    """Return a table of the promises of which something was measured, "" if there is none."""
    lines = [each for each in _lines(results) if each.found is not None]
    if not lines:
        return ""
    return table(("what", "promised", "measured", ""), [_row(each) for each in lines])


def _row(line: _Line) -> tuple[str, str, str, str]:
    found = line.found or 0.0
    kept = (line.least is None or found >= line.least) and (line.most is None or found <= line.most)
    bound = (
        f"≤ {line.say(line.most)}" if line.most is not None else f"≥ {line.say(line.least or 0)}"
    )
    return line.what, bound, line.say(found), "kept" if kept else "missed"


def _lines(results: Results) -> Iterable[_Line]:
    jobs = _CREATED_TOGETHER
    times = "{:.2f} times".format
    pods = f"{jobs} jobs: until all pods exist,"
    raw = _ratio(results, jobs, OURS, results.raw)
    yield _Line(f"{pods} to a bare client", raw, times, most=1.3)
    for who, least in ((_TUNED, 2.0), (_DEFAULTS, 15.0)):
        ahead = _ratio(results, jobs, _name(results, who), OURS)
        yield _Line(f"{pods} training-operator ({who}) to ours", ahead, times, least=least)
    ours = _lives(results, jobs, OURS)
    yield _Line(f"{jobs} jobs: writes for a job's life", _writes(ours), "{:.1f}".format, most=20)
    for who in (_TUNED, _DEFAULTS):
        theirs = _cpu(_lives(results, jobs, _name(results, who)))
        what = f"{jobs} jobs: CPU a job, ours to training-operator's ({who})"
        cpu = _cpu(ours)
        yield _Line(what, cpu / theirs if cpu and theirs else None, times, most=1.0)
    yield from _carried(results, _MANY, OURS, f"{_MANY} jobs")
    for name in sorted({who for jobs, who in results.lives if "shards" in who}):
        at = max(jobs for jobs, who in results.lives if who == name)
        yield from _carried(results, at, name, f"{at} jobs, {name.split(', ')[-1]}, each")
        many = _cpu(_lives(results, at, name)) if at > _FEW else None
        for who, where in ((OURS, "one operator"), (name, "the same shards")):
            few = _cpu(_lives(results, _FEW, who))
            what = f"{at} jobs: CPU a job, to that of {_FEW} on {where}"
            yield _Line(what, many / few if many and few else None, times, most=1.2)


def _carried(results: Results, jobs: int, who: str, words: str) -> Iterable[_Line]:
    lives = _lives(results, jobs, who)
    replaced = [value for life in lives for value in life.replaced]
    last = quantile(replaced, 0.99) if replaced else None
    memory = "{:.0f} MB".format
    yield _Line(f"{words}: of a core while all report", _most(lives, "steady"), percent, most=0.3)
    yield _Line(f"{words}: peak of memory", _most(lives, "memory"), memory, most=268)
    yield _Line(f"{words}: a failed worker is made again, p99", last, seconds, most=1.0)
    yield _Line(
        f"{words}: longest turn of the event loop", _most(lives, "stall"), seconds, most=0.1
    )
    yield _Line(f"{words}: from a start until synced", _most(lives, "synced"), seconds, most=15)
    yield _Line(f"{words}: of a core when all have ended", _most(lives, "rest"), percent, most=0.01)
    if lives and lives[0].rest is not None:
        count = float(max(life.rest_writes for life in lives))
        yield _Line(f"{words}: writes in 10 s when all have ended", count, "{:.0f}".format, most=0)
    yield _Line(
        f"{words}: a small job beside them, until its pods", _most(lives, "small"), seconds, most=2
    )


def _lives(results: Results, jobs: int, who: str | None) -> list[Life]:
    return list(results.lives.get((jobs, who or ""), {}).values())


def _name(results: Results, part: str) -> str | None:
    return next((who for _, who in results.lives if who.endswith(f", {part}")), None)


def _ratio(results: Results, jobs: int, who: str | None, to: str) -> float | None:
    """Return how often as long as somebody else one takes, as the median of the rounds."""
    found = results.ratios(jobs, who or "", to)
    return statistics.median(found) if found else None


def _writes(lives: Sequence[Life]) -> float | None:
    if not lives:
        return None
    created = sum(life.created for life in lives)
    began = sum(life.requests.writes.total() for life in lives) / created
    ends = sum(len(life.succeeded) for life in lives)
    return began + sum(life.ending.writes.total() for life in lives) / max(ends, 1)


def _cpu(lives: Sequence[Life]) -> float | None:
    known = [value for life in lives if (value := life.cpu_a_job) is not None]
    return statistics.median(known) if known else None


def _most(lives: Sequence[Life], field: str) -> float | None:
    return max(
        (value for life in lives if (value := getattr(life, field)) is not None), default=None
    )
