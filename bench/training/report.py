"""Puts what was measured into tables, for a terminal and for a page of the docs."""

import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.training.quality import ONE, Quality
from bench.training.setups import (
    CNN_PLAIN,
    CNN_PS_2,
    CNN_SEVERAL_2,
    CNN_SEVERAL_ALIKE_2,
    CNN_STOCK_PS_2,
    RATIOS,
    Ratio,
    Setup,
)
from bench.training.speed import Speed
from tools.cluster.images import TRAINER_LIMIT
from tools.pages import fill, table


@dataclass
class Results:
    """All that was measured; what was not asked for is empty."""

    rounds: int
    speeds: dict[Setup, list[Speed]] = field(default_factory=dict)
    qualities: list[Quality] = field(default_factory=list)
    starts: dict[str, list[float]] = field(default_factory=dict)
    image_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table; a row ends with whether a promise was kept, "" if there is none."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def sheets(results: Results) -> list[Sheet]:
    """Put the results into tables."""
    return [sheet for found in _sections(results).values() for sheet in found]


def _sections(results: Results) -> dict[str, list[Sheet]]:
    """Return the tables by the section of the page that they stand in; none for nothing."""
    found = {
        "speed": [_ratios(results), _profile(results), _processors(results), _memory(results)],
        "accuracy": [*map(_accuracies, results.qualities)],
        "start": [_starts(results)],
        "image": [_image(results.image_bytes)],
    }
    return {name: [sheet for sheet in of if sheet.rows] for name, of in found.items()}


def kept(results: Results) -> bool:
    """Whether no promise was missed."""
    return not any(row[-1] == "missed" for sheet in sheets(results) for row in sheet.rows)


def show(console: Console, results: Results) -> None:
    """Print the tables."""
    for sheet in sheets(results):
        table = Table(title=sheet.title, title_justify="left")
        for number, column in enumerate(sheet.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in sheet.rows:
            style = {"kept": "green", "missed": "red"}.get(row[-1])
            table.add_row(*row, style=style)
        console.print(table)


def write(page: Path, results: Results) -> None:
    """Put the tables between the marks of their sections; what was not measured stays."""
    for section, found in _sections(results).items():
        if found:
            fill(page, section, _markdown(results, found))


def _markdown(results: Results, found: Iterable[Sheet]) -> str:
    machine = f"{os.cpu_count()} cores of {_processor()}; rounds: {results.rounds}"
    step = _step_milliseconds(results)
    parts = [f"Machine: {machine}.{f' A step of the CNN takes {step:.0f} ms.' if step else ''}"]
    parts += [f"### {sheet.title}\n\n{table(sheet.columns, sheet.rows)}" for sheet in found]
    return "\n\n".join(parts)


def _ratios(results: Results) -> Sheet:
    measured = results.speeds.keys()
    rows = [_ratio(each, results.speeds) for each in RATIOS if {each.setup, each.base} <= measured]
    columns = ("what", "examples/s", "against", "ratio", "of the rounds", "promised", "")
    return Sheet("Examples per second, medians", columns, rows)


def _ratio(ratio: Ratio, speeds: Mapping[Setup, Sequence[Speed]]) -> tuple[str, ...]:
    ours = [speed.examples_per_second for speed in speeds[ratio.setup]]
    theirs = [speed.examples_per_second for speed in speeds[ratio.base]]
    # Of one round: the two were measured within a minute.
    values = [a / b for a, b in zip(ours, theirs, strict=True)]
    median = statistics.median(values)
    verdict = "" if ratio.least is None else _verdict(good=median >= ratio.least)
    return (
        ratio.what,
        f"{statistics.median(ours):,.0f}",
        f"{statistics.median(theirs):,.0f}",
        f"{median:.2f}",
        f"{min(values):.2f} to {max(values):.2f}",
        "-" if ratio.least is None else f"≥ {ratio.least:.2f}",
        verdict,
    )


def _accuracies(quality: Quality) -> Sheet:
    question = quality.question
    base = quality.accuracies[ONE]
    rows = []
    for name, each in quality.accuracies.items():
        mean = statistics.fmean(each)
        difference = mean - statistics.fmean(base)
        is_base = each is base
        rows.append(
            (
                name,
                f"{100 * mean:.2f} %",
                f"{100 * min(each):.2f} to {100 * max(each):.2f}",
                "-" if is_base else f"{100 * difference:+.2f}",
                "-" if is_base else f"≥ {-100 * question.limit:.1f}",
                "" if is_base else _verdict(good=difference >= -question.limit),
            )
        )
    columns = ("trained by", "mean", "of the seeds", "points", "promised", "")
    title = f"Accuracy after the same number of examples: {question.data}; seeds: {len(base)}"
    return Sheet(title, columns, rows)


def _profile(results: Results) -> Sheet:
    """Divide the time of the cores by who had it, for each step of the CNN."""
    spent = {
        setup: _medians([_milliseconds(setup, speed) for speed in results.speeds[setup]])
        for setup in (CNN_SEVERAL_2, CNN_STOCK_PS_2, CNN_SEVERAL_ALIKE_2, CNN_PS_2)
        if setup in results.speeds
    }
    # A step of those that have the same memory; without them, of the other plain processes.
    computes = {
        setup.in_image: spent[setup]["plain"]
        for setup in (CNN_SEVERAL_2, CNN_SEVERAL_ALIKE_2)
        if setup in spent
    }
    rows = []
    for setup, of_role in spent.items():
        alone = computes.get(setup.in_image, computes.get(False))
        if alone is None:
            continue
        trains = of_role.get("worker", of_role.get("plain", 0.0))
        rows.append(
            (
                _trained_by(setup),
                f"{of_role['all']:.1f}",
                f"{min(alone, trains):.1f}",
                f"{max(0.0, trains - alone):.1f}",
                f"{of_role.get('ps', 0.0):.1f}",
                f"{of_role.get('chief', 0.0):.1f}",
                f"{of_role['nobody']:.1f}",
            )
        )
    columns = (
        *("trained by", "all", "compute", "worker: pull, push", "ps: apply, send"),
        *("chief", "nobody (waiting)"),
    )
    return Sheet("Where a step of the CNN goes, in ms of one core", columns, rows)


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {each: statistics.median(one[each] for one in rounds) for each in rounds[0]}


def _trained_by(setup: Setup) -> str:
    name = f"{setup.size} {'plain processes' if setup.kind == 'several' else 'workers'}"
    return f"{name}{', stock' * setup.is_stock}{', huge pages' * setup.in_image}"


def _milliseconds(setup: Setup, speed: Speed) -> dict[str, float]:
    """Return the milliseconds of a core that each role used for a step, all and nobody."""
    steps = speed.examples_per_second / setup.batch
    used = {role: 1000 * cores / steps for role, cores in speed.cpu.items()}
    total = 1000 * setup.size / steps
    return {**used, "all": total, "nobody": total - sum(used.values())}


def _processors(results: Results) -> Sheet:
    rows = []
    for setup, speeds in results.speeds.items():
        if setup.kind in ("plain", "several"):
            continue
        roles = sorted(speeds[0].cpu)
        shares = {role: statistics.median(s.cpu[role] for s in speeds) for role in roles}
        used = ", ".join(f"{role} {share:.2f}" for role, share in shares.items())
        rows.append((setup.name, str(setup.size), used))
    return Sheet("Who uses the processors, in cores", ("setup", "cores", "used"), rows)


def _memory(results: Results) -> Sheet:
    most = max(
        (s for s in results.speeds if s.kind == "ParameterServer" and not s.is_stock),
        key=lambda setup: (setup.task == "cnn", setup.size),
        default=None,
    )
    if most is None:
        return Sheet("", (), [])
    found = [speed.memory for speed in results.speeds[most]]
    rows = [
        (
            role,
            *(
                f"{statistics.median(getattr(memory[role], name) for memory in found):.0f}"
                for name in ("steady", "private", "peak")
            ),
        )
        for role in sorted(found[0])
    ]
    columns = ("role", "resident", "of that private", "peak")
    return Sheet(f"Memory in MB, {most.model} with {most.size} workers", columns, rows)


def _starts(results: Results) -> Sheet:
    rows = [(what, _spread(values)) for what, values in results.starts.items()]
    return Sheet("Seconds to start on one core, medians", ("what", "seconds"), rows)


def _image(size: int | None) -> Sheet:
    rows = []
    if size is not None:
        verdict = _verdict(good=size <= TRAINER_LIMIT)
        rows = [
            ("trainer, for CPUs", f"{size / 1e6:,.0f}", f"≤ {TRAINER_LIMIT / 1e6:,.0f}", verdict)
        ]
    return Sheet("Image, MB unpacked", ("image", "MB", "promised", ""), rows)


def _step_milliseconds(results: Results) -> float | None:
    speeds = results.speeds.get(CNN_PLAIN)
    if not speeds:
        return None
    median = statistics.median(speed.examples_per_second for speed in speeds)
    return 1000 * CNN_PLAIN.batch / median


def _verdict(*, good: bool) -> str:
    return "kept" if good else "missed"


def _spread(values: Iterable[float]) -> str:
    known = sorted(values)
    return f"{statistics.median(known):.1f} ({known[0]:.1f} to {known[-1]:.1f})"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return found[0] if found else "an unnamed processor"
