"""The command line: python -m e2e.scenarios.tfjobs --page docs/guide/from-tfjob.md."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from e2e.install import installed
from e2e.scenarios.tfjobs.page import markdown
from e2e.scenarios.tfjobs.running import outcomes, wrong
from e2e.scenarios.tfjobs.shapes import ALL, Shape
from e2e.scenarios.tfjobs.surroundings import surroundings
from e2e.terminal import console, say
from tools.choice import chosen
from tools.cluster import Cluster, ClusterError, obtain
from tools.interrupts import raised
from tools.pages import fill

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_AT_ONCE = 3
"""How many jobs a machine of two cores runs at once."""


@app.command()
def main(
    *,
    only: Annotated[
        list[str] | None, typer.Option(help="Only shapes of which this is a part of the name.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Replace the table of this page.")] = None,
) -> None:
    """Convert TFJobs and run what came out; fail if one does not end as it should."""
    wanted = chosen(ALL, only, lambda shape: shape.name)
    try:
        with raised(), obtain(say=say) as cluster, installed(cluster, say):
            shapes = [shape for shape in wanted if _can_run(cluster, shape)]
            with surroundings(cluster, shapes) as prepare:
                found = outcomes(cluster, shapes, at_once=_AT_ONCE, prepare=prepare, say=say)
    except ClusterError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(1) from error
    console.print(escape(markdown(shapes, found)), soft_wrap=True)
    if page is not None:
        fill(page, "shapes", markdown(shapes, found))
    failed = any(wrong(shape, outcome) for shape, outcome in zip(shapes, found, strict=True))
    raise typer.Exit(1 if failed else 0)


def _can_run(cluster: Cluster, shape: Shape) -> bool:
    if not shape.needs or cluster.engine is not None:
        return True
    say(f"{shape.name}: skipped: it needs {shape.needs}, and this cluster is not ours to enter")
    return False


if __name__ == "__main__":
    sys.exit(app())
