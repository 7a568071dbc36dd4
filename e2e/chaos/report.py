"""Reports what a run of chaos learned: tables for a terminal, and the same as Markdown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from e2e.chaos.outcome import Injected, Outcome
from e2e.chaos.recovery import quantile
from e2e.recording import Resume
from tools.pages import table

_ROLES = ("worker", "ps", "chief", "evaluator", "job")
_SHARED = "all jobs"


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def sheets(outcome: Outcome) -> list[Sheet]:
    """Put the outcome into tables."""
    return [_summary(outcome), *_kinds(outcome), *_recoveries(outcome)]


def show(console: Console, outcome: Outcome) -> None:
    """Print the tables; where the console is no terminal, plainly."""
    for sheet in sheets(outcome):
        table = Table(title=sheet.title, title_justify="left")
        for number, column in enumerate(sheet.columns):
            table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)


def markdown(outcome: Outcome) -> str:
    """Return the tables as Markdown."""
    return "\n\n".join(
        f"### {sheet.title}\n\n{table(sheet.columns, sheet.rows, others='---')}"
        for sheet in sheets(outcome)
    )


def _summary(outcome: Outcome) -> Sheet:
    resumes = [resume for ended in outcome.ended for resume in ended.resumes]
    wrong = [e for e in outcome.ended if e.errors]
    rows = [
        ("seed", str(outcome.seed)),
        ("minutes", f"{outcome.seconds / 60:.1f}"),
        ("faults injected", str(len(outcome.injected) + outcome.operator_kills)),
        ("jobs finished", str(len(outcome.ended))),
        ("wrong ends, counters or models", str(len(wrong))),
        ("healthy pods deleted", str(len(outcome.harms))),
        ("healthy pods restarted", str(len(outcome.restarted))),
        ("pods duplicated", str(len(outcome.duplicates))),
        ("chiefs that resumed", str(len(resumes))),
        ("steps lost, in all", str(sum(resume.lost for resume in resumes))),
        ("steps lost at once, most", str(max((resume.lost for resume in resumes), default=0))),
        (
            "steps between two checkpoints, most",
            str(max((resume.interval for resume in resumes), default=0)),
        ),
        (
            "resumed behind the newest readable checkpoint",
            str(sum(_behind(ended.unreadable, ended.resumes) for ended in outcome.ended)),
        ),
        ("faults that were not repaired", str(sum(bool(i.error) for i in outcome.injected))),
    ]
    if outcome.operator_kills:
        rows.insert(3, ("of these, operator killed", str(outcome.operator_kills)))
    return Sheet("Outcome", ("what", "value"), rows)


def _behind(unreadable: int, resumes: Iterable[Resume]) -> int:
    older = sum(resume.start < resume.last_checkpoint for resume in resumes)
    return max(0, older - unreadable)


def _kinds(outcome: Outcome) -> list[Sheet]:
    if not outcome.injected:
        return []
    counts = Counter((i.kind.role or _SHARED, i.kind.name) for i in outcome.injected)
    causes = (fault for harm in outcome.harms if (fault := outcome.fault_of(harm)) is not None)
    harms = Counter((fault.kind.role or _SHARED, fault.kind.name) for fault in causes)
    rows = [
        (role, name, str(count), str(harms[role, name]))
        for (role, name), count in sorted(counts.items())
    ]
    return [Sheet("Faults", ("what was hit", "how", "times", "healthy pods deleted"), rows)]


def _recoveries(outcome: Outcome) -> list[Sheet]:
    if not outcome.injected:
        return []
    rows = []
    for role in (*_ROLES, ""):
        found = [i for i in outcome.injected if i.kind.role == role and not i.error]
        if not found:
            continue
        prompt = [i for i in found if not i.delayed]
        rows.append(
            (
                role or _SHARED,
                str(len(found)),
                _spread(i.recovery.total for i in prompt),
                _spread(i.recovery.operator for i in prompt),
                _spread(i.recovery.removal for i in found),
                _spread(i.recovery.pod_start for i in found),
                _spread(i.recovery.tensorflow for i in found),
                _spread(i.recovery.standstill for i in prompt),
                _most(found),
            )
        )
    columns = (
        "role",
        "faults",
        "back, in all",
        "operator",
        "removal",
        "pod start",
        "TensorFlow",
        "steps stood still",
        "longest standstill",
    )
    return [Sheet("Seconds to recover, p50 / p95", columns, rows)]


def _spread(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    half, most = quantile(known, 0.5), quantile(known, 0.95)
    return f"{half:.2f} / {most:.2f}" if half is not None and most is not None else "-"


def _most(found: Sequence[Injected]) -> str:
    return f"{max((i.recovery.standstill or 0.0 for i in found), default=0.0):.1f}"
