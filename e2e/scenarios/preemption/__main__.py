"""The command line: python -m e2e.scenarios.preemption --page docs/guide/preemption.md."""

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from e2e.faults import NoNodeError
from e2e.install import installed, namespaced
from e2e.recording import recording
from e2e.scenarios.broken_jobs.page import stable
from e2e.scenarios.drill import Drill
from e2e.scenarios.preemption.measure import SAVE_SECONDS, Cost, measured
from e2e.scenarios.preemption.ways import GRACE_SECONDS, WAYS, Way
from e2e.scenarios.space import Space
from e2e.terminal import console, say
from tools.cluster import Cluster, ClusterError, obtain
from tools.interrupts import raised
from tools.pages import fill, table

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_HEAD = (
    "what takes the pods",
    "time to end",
    "chief saved and gone after",
    "steps lost",
    "steps between checkpoints",
    "trains again, after there is room",
)
_EVENTS = "kueue"


@app.command()
def main(
    page: Annotated[Path | None, typer.Option(help="Replace tables and events of a page.")] = None,
) -> None:
    """Take the pods of jobs away while they train, and measure what that costs them."""
    costs: dict[str, Cost] = {}
    try:
        with raised(), obtain(say=say) as cluster, installed(cluster, say):
            for way in WAYS:
                say(f"{way.name}: {way.what}")
                costs[way.name] = _measured(cluster, way)
                _show(costs[way.name])
    except (AssertionError, ClusterError, NoNodeError) as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(1) from error
    if page is not None:
        fill(page, "measured", table_of(costs))
        fill(page, "events", _block(costs[_EVENTS].events))


def _measured(cluster: Cluster, way: Way) -> Cost:
    space = Space(cluster, f"preemption-{secrets.token_hex(2)}")
    with namespaced(cluster, space.name, wait=True), recording(cluster, space.name) as record:
        return measured(Drill(space, record), way)


def _show(cost: Cost) -> None:
    console.print(escape(f"{cost}"), soft_wrap=True)


def table_of(costs: Mapping[str, Cost]) -> str:
    """Return the figures as a table, a row for each way."""
    figures = table(_HEAD, (_row(way, costs[way.name]) for way in WAYS))
    return f"A checkpoint every {SAVE_SECONDS} s.\n\n{figures}"


def _row(way: Way, cost: Cost) -> list[str]:
    return [
        way.what,
        f"{GRACE_SECONDS} s",
        f"{cost.gone:.1f} s",
        str(cost.lost),
        str(cost.interval),
        f"{cost.again:.0f} s",
    ]


def _block(lines: tuple[str, ...]) -> str:
    return "\n".join(["```", *map(stable, lines), "```"])


if __name__ == "__main__":
    sys.exit(app())
