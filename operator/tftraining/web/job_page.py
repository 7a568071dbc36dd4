"""The page of one job: why it is in its state, progress, pods, last failure, events. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.job import InvalidJobError, Job, parse_job

from tftraining.view import describe, training
from tftraining.view.training import Point
from tftraining.view.why import why
from tftraining.web.curve import curve
from tftraining.web.document import bar, document, state
from tftraining.web.markup import Markup, table, tag

_Object = dict[str, Any]

UP = "../../"
"""The way from the page of a job to the overview."""


@dataclass(frozen=True, slots=True)
class Details:
    """What is asked for only if somebody looks at a job."""

    pods: list[_Object] = field(default_factory=list)
    events: list[_Object] = field(default_factory=list)
    """Oldest first."""
    claims: list[_Object] = field(default_factory=list)
    """PersistentVolumeClaims of pods without a node."""
    problem: str = ""
    """Why they could not be read."""


def job_page(
    raw: _Object,
    details: Details,
    losses: Sequence[Point],
    now: datetime,
    *,
    problem: str = "",
) -> str:
    """Return the page of a job; `losses` are steps and values."""
    name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
    found = why(raw, details.pods, details.events, now, claims=details.claims)
    there = tag("a", namespace, href=f"{UP}namespaces/{quote(namespace, safe='')}")
    content = [
        tag("h1", name),
        tag("p", ("in namespace ", there)),
        tag("p", (state(found.state, f"{namespace}/{name}"), " ", found.text), class_="why"),
        *_sections(raw, details, losses, now, found.text),
    ]
    problem = problem or details.problem
    return document(f"{name}: {found.state}", content, up=UP, problem=problem)


def no_job_page(namespace: str, name: str, *, problem: str = "") -> str:
    """Return the page of a job that does not exist, or with a problem perhaps does."""
    title = "Unknown job" if problem else "No such job"
    text = f"There is no job {name} in namespace {namespace}: it was deleted, or never existed."
    if problem:
        text = f"It is not known whether there is a job {name} in namespace {namespace}."
    content = [tag("h1", title), tag("p", text), tag("p", tag("a", "All jobs", href=UP))]
    return document(title, content, up=UP, problem=problem)


def _sections(
    raw: _Object, details: Details, losses: Sequence[Point], now: datetime, headline: str
) -> Iterator[Markup]:
    events = describe.event_rows(details.events, now)[::-1]
    try:
        job = parse_job(raw, now)
    except InvalidJobError:
        yield from _table("Events", describe.EVENT_TITLES, events)
        return
    yield from _progress(job, losses, headline)
    yield from _roles(job, details.pods, now)
    yield from _table("Pods", describe.POD_TITLES, describe.pod_rows(job, details.pods, now))
    yield from _failure(job)
    yield from _table("Events", describe.EVENT_TITLES, events)
    conditions = describe.condition_rows(job, now)
    yield from _table("Conditions", describe.CONDITION_TITLES, conditions)
    known = (
        tag("div", (tag("dt", title), tag("dd", value)))
        for title, value in describe.facts(job, raw, now)
    )
    yield _section("Details", tag("dl", known))


def _progress(job: Job, losses: Sequence[Point], headline: str) -> Iterator[Markup]:
    progress = job.status.progress
    if progress is None:
        return
    rates = training.rates(job)
    parts = [
        bar(progress.step, progress.total_steps, "progress"),
        tag("p", rates) if rates != headline else "",
        curve(losses) or Markup(""),
    ]
    yield _section("Progress", *parts)


def _roles(job: Job, pods: Sequence[_Object], now: datetime) -> Iterator[Markup]:
    if not pods or is_finished(job.status):
        return  # nothing more is to become ready
    lines = training.role_lines(job, pods, now)
    yield _section(
        "Roles", tag("ul", (tag("li", " ".join(text.split())) for _, text in lines), class_="roles")
    )


def _failure(job: Job) -> Iterator[Markup]:
    found = describe.failure(job)
    if found is None:
        return
    pod, log = found
    text = tag("pre", "\n".join(log), tabindex="0", role="region", aria_label="last failure")
    yield _section("Last failure", tag("p", pod), text if log else "")


def _table(heading: str, titles: Sequence[str], rows: describe.Rows) -> Iterator[Markup]:
    if rows:
        yield _section(heading, table(heading, titles, rows))


def _section(heading: str, *content: str) -> Markup:
    anchor = heading.lower().replace(" ", "-")
    return tag("section", (tag("h2", heading, id=anchor), *content), aria_labelledby=anchor)
