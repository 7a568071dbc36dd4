"""The command line: python -m bench.scale --jobs 1 --jobs 50 --rounds 3 --page docs/scale.md."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bench.scale import report
from bench.scale.cluster import Cluster, cluster
from bench.scale.contenders import ROOT, Contender, Ours, Raw
from bench.scale.life import Life, live
from bench.scale.report import Results
from tools.cluster.shell import ClusterError
from tools.pages import fill

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)

OURS = "ours"


@app.command()
def main(
    *,
    jobs: Annotated[
        list[int] | None, typer.Option(help="Jobs at once (1, 50, 200); repeatable.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Each measures every contender once.")] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help="Contenders by a part of their name; repeatable.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another checkout whose operator is measured as well.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Replace the tables of this page.")] = None,
    section: Annotated[str, typer.Option(help="Which tables of the page.")] = "measured",
) -> None:
    """Measure contenders in turn, round after round, on one API server."""
    results = Results(rounds, raw=Raw.name)
    contenders = _contenders(only, against)
    try:
        with cluster() as place:
            for number in range(rounds):
                for count in jobs or [1, 50, 200]:
                    _lives(place, results, contenders, number, count)
    except ClusterError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        raise typer.Exit(1) from error
    text = report.markdown(results)
    print(text)
    if page is not None:
        fill(page, section, text)


def _contenders(only: Sequence[str] | None, against: Path | None) -> list[Contender]:
    found: list[Contender] = [Raw(), Ours(OURS, ROOT)]
    if against is not None:
        found.append(Ours(f"{OURS}, before", against.absolute()))
    return [each for each in found if not only or any(part in each.name for part in only)]


def _lives(
    place: Cluster, results: Results, contenders: Sequence[Contender], number: int, count: int
) -> None:
    for index, each in enumerate(contenders):
        life = live(place, each, f"round-{number}-{count}-{index}", count)
        results.lives.setdefault((count, each.name), []).append(life)
        _say(f"round {number + 1}: {count} jobs, {each.name}: {_in_words(life)}")


def _in_words(life: Life) -> str:
    cpu = "" if life.cpu is None else f", CPU {life.cpu:.2f} s"
    return f"pods {life.pods_exist:.1f} s, running {life.all_run:.1f} s{cpu}"


def _say(line: str) -> None:
    console.print(f"[dim]·[/] {escape(line)}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(app())
