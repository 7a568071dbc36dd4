"""The command line: python -m bench.data --page docs/guide/data.md."""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bench.data import runs
from bench.data.runs import GANG, KINDS, ORDERS, PS_MODES, Run
from bench.training.processes import BenchError
from tools import pages
from tools.interrupts import raised

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)

_MOST_WORKERS = 3
_LEAST_DISTURBED = 0.999
_INPUT = "input"
_TURNS = 3
_MOST_COST = 1.25
"""Of the input of three workers, times that of one. Each makes what is prefetched at the end."""
_PAGE_HEAD = (
    *("strategy, mode", "fault", "workers", "trainings"),
    *("seen in every epoch, at least", "repeated, at most"),
)


@app.command()
def main(
    *,
    only: Annotated[
        list[str] | None, typer.Option(help=f"May be repeated: {', '.join([*KINDS, _INPUT])}.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Replace the tables of this page.")] = None,
) -> None:
    """Count which examples each strategy and mode trains on; fail where some are left out.

    And measure what the input of several workers costs, against that of one.
    """
    known = (*KINDS, _INPUT)
    if unknown := set(only or ()) - set(known):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
    wanted = only or list(known)
    found: list[Run] = []
    costs: dict[int, list[float]] = {}
    try:
        with raised(), tempfile.TemporaryDirectory(prefix="bench-data-") as name:
            folder = Path(name)
            with runs.servers(folder / "servers", _MOST_WORKERS) as servers:
                if _INPUT in wanted:
                    costs = _costs(folder, servers)
                for number, plan in enumerate(_planned([k for k in wanted if k != _INPUT])):
                    found.append(plan(folder=folder / str(number), known=servers))
                    console.print(f"[dim]·[/] {escape(', '.join(_row(found[-1])))}")
    except BenchError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        raise typer.Exit(1) from error
    if page is not None and found:
        pages.fill(page, "coverage", pages.table(_PAGE_HEAD, _page_rows(found)))
    if page is not None and costs:
        pages.fill(page, "input", pages.table(_COST_HEAD, _cost_rows(costs)))
    missed = [run for run in found if run.seen < _bound(run)]
    for run in missed:
        console.print(f"[red]below the bound of {_bound(run):.1%}:[/] {', '.join(_row(run))}")
    console.print(f"{len(found)} trainings, {len(missed)} below the bound")
    is_dear = bool(costs) and _ratio(costs, _MOST_WORKERS) > _MOST_COST
    if is_dear:
        console.print(f"[red]the input of {_MOST_WORKERS} workers costs too much[/]")
    raise typer.Exit(1 if missed or is_dear else 0)


_COST_HEAD = ("workers", "seconds of CPU of all workers", "times those of one")


def _costs(folder: Path, servers: runs.Servers) -> dict[int, list[float]]:
    """Measure by turns, so that a machine which becomes slower is so for both."""
    costs: dict[int, list[float]] = {1: [], _MOST_WORKERS: []}
    for turn in range(_TURNS):
        for workers, known in costs.items():
            known.append(runs.input_cost(workers, folder / f"input-{turn}-{workers}", servers))
            console.print(f"[dim]·[/] input of {workers}: {known[-1]:.1f} s of CPU")
    return costs


def _ratio(costs: dict[int, list[float]], workers: int) -> float:
    return statistics.median(costs[workers]) / statistics.median(costs[1])


def _cost_rows(costs: dict[int, list[float]]) -> Iterator[tuple[str, ...]]:
    for workers, known in costs.items():
        spread = f"{statistics.median(known):.1f} ({min(known):.1f} to {max(known):.1f})"
        yield str(workers), spread, f"{_ratio(costs, workers):.2f}"


def _planned(kinds: list[str]) -> Iterator[Callable[..., Run]]:
    for kind in kinds:
        for workers in range(1, _MOST_WORKERS + 1):
            for order in ORDERS:
                yield partial(runs.undisturbed, kind, workers, order)
    for kind in kinds:
        for order in ORDERS:
            if kind in PS_MODES:
                yield partial(runs.losing_a_worker, kind, 2, order)
            if kind == GANG:
                yield partial(runs.losing_a_member, kind, 2, order)
            yield partial(runs.interrupted, kind, (2, 2), order)
            yield partial(runs.interrupted, kind, (1, 3, 2), order)


def _bound(run: Run) -> float:
    return 1.0 if run.fault == "none" else _LEAST_DISTURBED


def _row(run: Run) -> tuple[str, ...]:
    return _name(run), run.workers, run.order, run.fault, f"{run.seen:.2%}", str(run.repeated)


def _page_rows(found: list[Run]) -> Iterator[tuple[str, ...]]:
    """Write one row for all trainings of a kind with the same fault: the worst of them."""
    alike: dict[tuple[str, str], list[Run]] = {}
    for run in found:
        alike.setdefault((_name(run), run.fault), []).append(run)
    for (name, fault), same in sorted(alike.items(), key=lambda each: KINDS.index(each[1][0].kind)):
        workers = ", ".join(dict.fromkeys(run.workers for run in same))
        seen, repeated = min(run.seen for run in same), max(run.repeated for run in same)
        yield name, fault, workers, str(len(same)), f"{seen:.2%}", str(repeated)


def _name(run: Run) -> str:
    return f"ParameterServer, {run.kind}" if run.kind in PS_MODES else run.kind


if __name__ == "__main__":
    sys.exit(app())
