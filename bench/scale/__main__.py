"""The command line: python -m bench.scale --jobs 1 --jobs 50 --rounds 3 --page docs/scale.md."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bench.scale import report, training_operator
from bench.scale.cluster import cluster
from bench.scale.contenders import Contender, Ours, Raw
from bench.scale.life import Life, live
from bench.scale.promises import OURS
from bench.scale.results import Results
from bench.scale.training_operator import TrainingOperator
from tools.choice import chosen
from tools.cluster.shell import ClusterError
from tools.interrupts import raised
from tools.pages import fill, filled

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)


@app.command()
def main(
    *,
    jobs: Annotated[
        list[int] | None, typer.Option(help="Jobs at once (1, 50, 200); repeatable.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=0, help="Each measures every contender once; 0: only the tables.")
    ] = 5,
    shards: Annotated[int | None, typer.Option(help="Our operator also as so many shards.")] = None,
    placed: Annotated[
        bool, typer.Option(help="Name the nodes in our jobs' templates: nothing is scheduled.")
    ] = False,
    steady: Annotated[
        float, typer.Option(help="Seconds for which running jobs are left to report.")
    ] = 60.0,
    only: Annotated[
        list[str] | None, typer.Option(help="Contenders by a part of their name; repeatable.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another checkout whose operator is measured as well.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Keep all rounds in this file, and begin with those in it.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Replace the tables of this page.")] = None,
    section: Annotated[str, typer.Option(help="Which tables of the page.")] = "measured",
) -> None:
    """Measure contenders in turn, round after round, on one API server."""
    if page is not None:
        try:
            filled(page, section, "")  # before hours of measuring
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    found = Results.of(Raw.name, results)
    contenders = _contenders(only, against, shards, placed=placed)
    first = found.last_round() + 1
    try:
        if rounds:
            crds = dict.fromkeys(crd for each in contenders for crd in each.crds())
            with raised(), cluster(list(crds), placed=placed) as place:
                for number in range(first, first + rounds):
                    for count in jobs or [1, 50, 200]:
                        for index, each in enumerate(contenders):
                            space = f"round-{number}-{count}-{index}"
                            life = live(place, each, space, count, steady)
                            found.add(each.name, number, life)
                            _say(f"round {number}: {_in_words(each.name, life)}")
    except ClusterError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        raise typer.Exit(1) from error
    text = report.markdown(found)
    print(text)
    if page is not None:
        fill(page, section, text)


def _contenders(
    only: Sequence[str] | None, against: Path | None, shards: int | None, *, placed: bool
) -> list[Contender]:
    found: list[Contender] = [
        Raw(),
        Ours(OURS, placed=placed),
        Ours(f"{OURS}, without fairness", fair=False, placed=placed),
    ]
    if shards is not None:
        found.append(Ours(f"{OURS}, {shards} shards", shards=shards, placed=placed))
    if against is not None:
        found.append(Ours(f"{OURS}, before", against.absolute(), placed=placed))
    found.append(TrainingOperator("tuned", *training_operator.TUNED))
    found.append(TrainingOperator("defaults"))
    return chosen(found, only, lambda each: each.name)


def _in_words(who: str, life: Life) -> str:
    cpu = "" if life.cpu is None else f", CPU {life.cpu:.2f} s"
    times = f"pods {life.pods_exist:.1f} s, running {life.all_run:.1f} s"
    return f"{life.jobs} jobs, {who}: {times}{cpu}"


def _say(line: str) -> None:
    console.print(f"[dim]·[/] {escape(line)}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(app())
