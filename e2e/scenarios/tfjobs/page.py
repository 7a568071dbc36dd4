"""The table of what became of the shapes."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from tftraining.job import seen
from tftraining.view.training import describe_roles

from e2e.scenarios.broken_jobs.page import stable
from e2e.scenarios.tfjobs.running import Outcome
from e2e.scenarios.tfjobs.shapes import SUCCEEDED, Shape
from tools.pages import table

_HEAD = ("TFJob", "what `tftj convert` reports", "here", "end", "time")
_FINDING = re.compile(r"^ +(differs|lost|refused) +(\S+?): ", re.MULTILINE)
_PREFIX = re.compile(r"^(spec\.)?(tfReplicaSpecs\.|runPolicy\.)?")


def markdown(shapes: Sequence[Shape], outcomes: Sequence[Outcome]) -> str:
    """Return the table of all shapes."""
    pairs = zip(shapes, outcomes, strict=True)
    return table(_HEAD, (_row(shape, outcome) for shape, outcome in pairs), others="---")


def _row(shape: Shape, outcome: Outcome) -> list[str]:
    time = "" if outcome.seconds is None else f"{outcome.seconds:.0f} s"
    return [shape.what, reported(outcome.report), _here(outcome), _end(shape, outcome), time]


def reported(report: str) -> str:
    """Return the fields that a report names, without what it says of them."""
    fields: dict[str, dict[str, None]] = {}
    for level, path in _FINDING.findall(report):
        fields.setdefault(level, {})[f"`{_PREFIX.sub('', path)}`"] = None
    return "; ".join(f"{level} {', '.join(paths)}" for level, paths in fields.items())


def _here(outcome: Outcome) -> str:
    """Return strategy and roles of the converted jobs."""
    jobs = [seen(raw, [], datetime.now(UTC)).job for raw in outcome.jobs]
    kinds = [f"{job.spec.strategy}: {describe_roles(job)}" for job in jobs if job is not None]
    return ", ".join(dict.fromkeys(kinds))


def _end(shape: Shape, outcome: Outcome) -> str:
    if not shape.end:
        return "not converted"
    if shape.not_run:
        return f"not run: {shape.not_run}; the API server accepts it"
    if outcome.problem:
        return outcome.problem
    states = ", ".join(outcome.states)
    restarts = sum(job["status"].get("restarts") or 0 for job in outcome.jobs)
    again = f" after {restarts} restart{'s' if restarts > 1 else ''}" if restarts else ""
    why = "" if shape.end == SUCCEEDED else f": {stable(outcome.message)}"
    return f"{states}{again}{why}"
