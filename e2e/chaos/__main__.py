"""The command line: python -m e2e.chaos --minutes 25 --seed 1."""

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from e2e.chaos.report import markdown, show
from e2e.chaos.run import Chaos
from e2e.faults import NoNodeError
from e2e.install import installed, make_namespace
from e2e.recording import recording
from e2e.scenarios.drill import now
from e2e.scenarios.space import Space
from tools.cluster import ClusterError, obtain
from tools.pages import fill

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False)


@app.command()
def main(
    *,
    minutes: Annotated[float, typer.Option(help="No job begins after so long.")] = 30.0,
    seed: Annotated[int, typer.Option(help="The same seed chooses the same faults.")] = 1,
    jobs: Annotated[int, typer.Option(help="Jobs to run.")] = 12,
    faults: Annotated[int, typer.Option(help="Faults for each job.")] = 9,
    at_once: Annotated[int, typer.Option(help="Jobs at the same time.")] = 2,
    operator_kills: Annotated[
        int, typer.Option(help="Kill only the operator, so often, while the jobs run.")
    ] = 0,
    page: Annotated[Path | None, typer.Option(help="Replace a section of this page.")] = None,
) -> None:
    """Hit jobs that train with random faults, and tell what came of it."""
    try:
        with obtain(say=_say) as cluster, installed(cluster, _say):
            name = f"chaos-{secrets.token_hex(3)}"
            make_namespace(cluster, name)
            space = Space(cluster, name)
            try:
                with recording(cluster, name) as record:
                    chaos = Chaos(space, record, seed, _say)
                    if operator_kills:
                        outcome = chaos.run_operator_kills(jobs, operator_kills, at_once)
                    else:
                        outcome = chaos.run(jobs, faults, at_once, now() + 60 * minutes)
            finally:
                cluster.kubectl("delete", "namespace", name, "--wait=false")
    except (ClusterError, NoNodeError) as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(1) from error
    show(console, outcome)
    if page is not None:
        section = "operator killed" if operator_kills else "random faults"
        fill(page, section, markdown(outcome))
    for trouble in outcome.troubles:
        console.print(f"[red]wrong[/] {escape(trouble)}", soft_wrap=True)
    raise typer.Exit(1 if outcome.troubles else 0)


def _say(line: str) -> None:
    console.print(f"[dim]·[/] {escape(line)}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(app())
