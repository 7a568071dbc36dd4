"""The command line: python -m bench.recommender --page docs/training-performance.md."""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bench.recommender import runs
from bench.recommender.runs import Run
from bench.training.processes import BenchError
from tools import pages
from tools.interrupts import raised

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)

ONE = "`model.fit` in one process on the same 2 cores"
STOCK = "stock `model.fit` under ParameterServerStrategy"
OURS = "this project, asynchronous"
SAVING = f"the same, a checkpoint every {runs.CHECKPOINT_SECONDS:.0f} s"
_WAYS: Mapping[str, Callable[[Path], Run]] = {
    ONE: runs.one,
    STOCK: runs.stock,
    OURS: runs.ours,
    SAVING: partial(runs.ours, saves=True),
}
_LEAST_OF_STOCK = 1.0
_LEAST_AUC_POINTS = -0.5
"""Against one process, in hundredths, after the same number of examples."""
_HEAD = ("trained by", "examples/s", "of the rounds", "times stock", "AUC", "chief's peak, MB")


@app.command()
def main(
    *,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    page: Annotated[Path | None, typer.Option(help="Replace the table of this page.")] = None,
) -> None:
    """Train a recommender in each way, in turn; fail where this project is slower than stock."""
    found: dict[str, list[Run]] = {way: [] for way in _WAYS}
    try:
        with raised(), tempfile.TemporaryDirectory(prefix="bench-recommender-") as name:
            for turn in range(rounds):
                for number, (way, train) in enumerate(_WAYS.items()):
                    found[way].append(train(Path(name) / f"{turn}-{number}"))
                    console.print(f"[dim]·[/] {escape(f'{way}: {found[way][-1]}')}")
    except BenchError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        raise typer.Exit(1) from error
    text = f"{_table(found)}\n\n{_cost(found)}"
    console.print(text, markup=False, soft_wrap=True)
    if page is not None:
        pages.fill(page, "recommender", text)
    missed = list(broken_promises(found))
    for line in missed:
        console.print(f"[red]{escape(line)}[/]")
    raise typer.Exit(1 if missed else 0)


def _table(found: Mapping[str, Sequence[Run]]) -> str:
    """Return the table; a ratio is the median of the rounds'."""

    def row(way: str) -> tuple[str, ...]:
        known = found[way]
        speeds = [run.examples_per_second for run in known]
        return (
            way,
            f"{statistics.median(speeds):,.0f}",
            f"{min(speeds):,.0f} to {max(speeds):,.0f}",
            f"{_against_stock(found, way):.2f}",
            f"{_median_auc(known):.4f}",
            f"{statistics.median(run.chief_peak for run in known):,.0f}",
        )

    return pages.table(_HEAD, map(row, found))


def _cost(found: Mapping[str, Sequence[Run]]) -> str:
    """Say what a checkpoint costs, and how good a model could be at best."""
    pairs = zip(found[OURS], found[SAVING], strict=True)
    costs = [(saving.seconds - without.seconds) / max(1, saving.saves) for without, saving in pairs]
    spread = f"{min(costs):.1f} to {max(costs):.1f}"
    return (
        f"Rounds: {len(costs)}. A checkpoint, which the ps write themselves, takes "
        f"{statistics.median(costs):.1f} s "
        f"({spread}) of the training time. The probabilities that the clicks were drawn by have an "
        f"AUC of {found[ONE][0].best_auc:.4f}; guessing has 0.5."
    )


def _against_stock(found: Mapping[str, Sequence[Run]], way: str) -> float:
    pairs = zip(found[way], found[STOCK], strict=True)
    return statistics.median(a.examples_per_second / b.examples_per_second for a, b in pairs)


def _median_auc(known: Sequence[Run]) -> float:
    return statistics.median(run.auc for run in known)


def broken_promises(found: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """Say what is slower or worse than promised; saving checkpoints is no excuse."""
    for way in (OURS, SAVING):
        if (ratio := _against_stock(found, way)) < _LEAST_OF_STOCK:
            yield f"{way}: {ratio:.2f} times as fast as stock Keras; promised: {_LEAST_OF_STOCK}"
    points = 100 * (_median_auc(found[OURS]) - _median_auc(found[ONE]))
    if points < _LEAST_AUC_POINTS:
        yield f"AUC {points:+.2f} points against one process; promised: {_LEAST_AUC_POINTS}"


if __name__ == "__main__":
    sys.exit(app())
