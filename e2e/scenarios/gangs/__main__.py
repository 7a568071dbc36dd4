"""The command line: python -m e2e.scenarios.gangs --page docs/guide/scheduling.md."""

import functools
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from e2e.faults import NoNodeError
from e2e.install import installed
from e2e.scenarios.broken_jobs.page import stable
from e2e.scenarios.gangs.play import Seen, in_turn, stuck
from e2e.scenarios.space import new_space
from e2e.terminal import console, say
from tools.cluster import ClusterError, obtain
from tools.cluster.cluster import up
from tools.interrupts import raised
from tools.pages import fill

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_CLUSTER = "tftraining-gangs"


@app.command()
def main(
    page: Annotated[Path | None, typer.Option(help="Replace what a page shows of it.")] = None,
) -> None:
    """Have two jobs compete for room that only one of them has, without gangs and with them."""
    seen: Seen = {}
    try:
        with (
            raised(),
            obtain(_CLUSTER, say=say, start=functools.partial(up, gangs=True)) as cluster,
            installed(cluster, say),
        ):
            for play in (stuck, in_turn):
                with new_space(cluster) as space:
                    seen |= play(space)
    except (AssertionError, ClusterError, NoNodeError) as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(1) from error
    for section, lines in seen.items():
        console.print(escape("\n".join(lines)), soft_wrap=True)
        if page is not None:
            fill(page, section, "\n".join(["```", *map(stable, lines), "```"]))


if __name__ == "__main__":
    sys.exit(app())
