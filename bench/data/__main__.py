"""The command line: python -m bench.data --page docs/guide/data.md."""

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
from bench.data.runs import KINDS, ORDERS, PS_MODES, Run
from bench.training.processes import BenchError
from tools import pages

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)

_MOST_WORKERS = 3
_LEAST_DISTURBED = 0.999
_HEAD = ("strategy, mode", "workers", "order", "fault", "seen in every epoch", "repeated")


@app.command()
def main(
    *,
    only: Annotated[
        list[str] | None, typer.Option(help=f"May be repeated: {', '.join(KINDS)}.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Replace the table of this page.")] = None,
) -> None:
    """Count which examples each strategy and mode trains on; fail where some are left out."""
    if unknown := set(only or ()) - set(KINDS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: known are {', '.join(KINDS)}")
    found: list[Run] = []
    try:
        with tempfile.TemporaryDirectory(prefix="bench-data-") as name:
            folder = Path(name)
            with runs.servers(folder / "servers", _MOST_WORKERS) as servers:
                for number, plan in enumerate(_planned(only or list(KINDS))):
                    found.append(plan(folder=folder / str(number), known=servers))
                    console.print(f"[dim]·[/] {escape(', '.join(_row(found[-1])))}")
    except BenchError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        raise typer.Exit(1) from error
    table = pages.table(_HEAD, map(_row, found))
    if page is not None:
        pages.fill(page, "coverage", table)
    missed = [run for run in found if run.seen < _bound(run)]
    for run in missed:
        console.print(f"[red]below the bound of {_bound(run):.1%}:[/] {', '.join(_row(run))}")
    console.print(f"{len(found)} trainings, {len(missed)} below the bound")
    raise typer.Exit(1 if missed else 0)


def _planned(kinds: list[str]) -> Iterator[Callable[..., Run]]:
    for kind in kinds:
        for workers in range(1, _MOST_WORKERS + 1):
            for order in ORDERS:
                yield partial(runs.undisturbed, kind, workers, order)
    for kind in kinds:
        order = "shuffle(500)"
        if kind in PS_MODES:
            yield partial(runs.losing_a_worker, kind, 2, order)
        yield partial(runs.interrupted, kind, (2, 2), order)
        yield partial(runs.interrupted, kind, (1, 3, 1), order)


def _bound(run: Run) -> float:
    return 1.0 if run.fault == "none" else _LEAST_DISTURBED


def _row(run: Run) -> tuple[str, ...]:
    strategy = f"ParameterServer, {run.kind}" if run.kind in PS_MODES else run.kind
    seen = f"{run.seen:.2%}"
    return strategy, run.workers, run.order, run.fault, seen, str(run.repeated)


if __name__ == "__main__":
    sys.exit(app())
