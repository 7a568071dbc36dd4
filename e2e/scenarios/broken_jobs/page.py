"""The table of what is said of broken jobs, without what differs from run to run."""

import re
from collections.abc import Sequence

from e2e.scenarios.broken_jobs.broken_job import BrokenJob, Told
from tools.pages import table

_HEAD = (
    "what is wrong",
    "`kubectl get tftj`",
    "first line of `tftj describe`",
    "first event",
)
_LIMIT = 600
_BEFORE_WORDS = re.compile(r"^\S+: (\w+( \(exit code \d+\))?: )?")
_DIFFERING = (
    (re.compile(r"broken-([a-z]+)-[0-9a-f]{4}\b"), r"\1"),  # namespaces
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "01234567-…"),
    (re.compile(r"\btftraining-(control-plane|worker\d*)\b"), "node-1"),
    (re.compile(r"\b\d+(\.\d+){3}\b(:\d+)?"), "10.0.0.1"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"), "2026-01-01T00:00:00Z"),
)


def markdown(jobs: Sequence[BrokenJob], told: Sequence[Told]) -> str:
    """Return the table of all jobs."""
    pairs = zip(jobs, told, strict=True)
    return table(_HEAD, (_row(job, each) for job, each in pairs), others="---")


def _row(broken: BrokenJob, told: Told) -> list[str]:
    described = told.described.removeprefix(f"{broken.name}: ")
    reason, _, words = told.event.partition(": ")
    # Most events repeat those words: after the pod, the reason and the exit code.
    is_told = _BEFORE_WORDS.sub("", words) in described
    event = reason if is_told else told.event
    return [broken.mistake, _code(told.state), _code(described), _code(event)]


def stable(text: str) -> str:
    """Return what a job said, the same in each run."""
    for pattern, word in _DIFFERING:
        text = pattern.sub(word, text)
    return text


def _code(text: str) -> str:
    """Return a text of the terminal as a cell of a table."""
    text = stable(text)
    text = text if len(text) <= _LIMIT else f"{text[: _LIMIT - 1]}…"
    # A bar would end the cell, and a backtick the code.
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"
