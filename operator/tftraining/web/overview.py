"""The page of all jobs: what trains, what waits and why, what has ended. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tftraining.view import table
from tftraining.web.document import bar, document, state
from tftraining.web.markup import Markup, tag

_Object = dict[str, Any]
_Cells = Mapping[str, str]

_ENDED = frozenset({"Succeeded", "Failed"})
_MOST = 200
"""Jobs that a group shows at most."""
_ON_PHONES = 3
"""Columns that the narrowest screen shows: job, state and progress."""
_COLUMNS = ("PROGRESS", "LOSS", "ETA", "WORKERS", "PS", "RESTARTS", "AGE")


def overview(
    jobs: Sequence[_Object], now: datetime, *, namespace: str | None = None, problem: str = ""
) -> str:
    """Return the page of jobs, of all namespaces or of one."""
    shown = [job for job in jobs if namespace in (None, job["metadata"]["namespace"])]
    up = "" if namespace is None else "../"
    where = "" if namespace is None else f" in namespace {namespace}"
    groups = _groups(shown)
    counts = ", ".join(f"{len(group)} {name.lower()}" for name, group in groups.items())
    return document(
        counts,
        [
            tag("h1", f"Training jobs{where}"),
            tag("p", f"{counts}."),
            *([] if namespace is None else [tag("p", tag("a", "All namespaces", href="../"))]),
            *(_group(name, group, now, up) for name, group in groups.items() if group),
        ],
        up=up,
        problem=problem,
    )


def _groups(jobs: Sequence[_Object]) -> dict[str, list[_Object]]:
    groups: dict[str, list[_Object]] = {"Training": [], "Waiting": [], "Ended": []}
    for job in jobs:
        word = (job.get("status") or {}).get("state")
        kind = "Training" if word in table.TRAINING else "Ended" if word in _ENDED else "Waiting"
        groups[kind].append(job)
    groups["Ended"].sort(key=_ended_at, reverse=True)
    return groups


def _ended_at(job: _Object) -> str:
    return str(job["status"].get("completionTime") or "")


def _group(name: str, jobs: Sequence[_Object], now: datetime, up: str) -> Markup:
    titles, *rows = table.table(jobs[:_MOST], now, wide=True, everywhere=True)
    heads = ("JOB", "STATE", *_COLUMNS)
    head = tag("tr", (tag("th", _title(each), scope="col", class_=each.lower()) for each in heads))
    body = (
        each
        for row, job in zip(rows, jobs, strict=False)
        for each in _rows(dict(zip(titles, row, strict=True)), job, up)
    )
    anchor = name.lower()
    more = len(jobs) - _MOST
    return tag(
        "section",
        (
            tag("h2", f"{name} ({len(jobs)})", id=anchor),
            tag(
                "table",
                (tag("thead", head), tag("tbody", body)),
                class_="jobs",
                aria_labelledby=anchor,
            ),
            tag("p", f"{more} more; tftj list shows all.") if more > 0 else "",
        ),
        aria_labelledby=anchor,
    )


def _rows(cells: _Cells, job: _Object, up: str) -> Iterator[Markup]:
    yield tag("tr", _cells(cells, job, up), id=_id(job))
    if cells["MESSAGE"]:
        message = tag("td", cells["MESSAGE"], colspan=_ON_PHONES)
        yield tag("tr", message, class_="message")


def _cells(cells: _Cells, job: _Object, up: str) -> Iterator[Markup]:
    namespace, name = cells["NAMESPACE"], cells["NAME"]
    address = f"{up}jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"
    link = tag("a", name, href=address, id=f"to-{_id(job)}")
    there = tag("a", namespace, href=f"{up}namespaces/{quote(namespace, safe='')}")
    yield tag("th", (link, tag("span", (" in ", there), class_="namespace")), scope="row")
    yield tag("td", state(cells["STATE"], f"{namespace}/{name}"), class_="state")
    for title in _COLUMNS:
        shown: tuple[str, ...] = (cells[title],)
        if title == "PROGRESS":
            shown = (_bar(job, name), " ", cells[title])
        yield tag("td", shown, class_=title.lower())


def _bar(job: _Object, name: str) -> Markup:
    progress = (job.get("status") or {}).get("progress") or {}
    return bar(progress.get("step") or 0, progress.get("totalSteps"), f"progress of {name}")


def _title(column: str) -> str:
    return {"ETA": "Time left", "PS": "PS"}.get(column, column.capitalize())


def _id(job: _Object) -> str:
    return f"job-{job['metadata']['uid']}"
