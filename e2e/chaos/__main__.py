"""The command line: python -m e2e.chaos --minutes 25 --seed 1."""

import secrets
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from e2e.chaos.kinds import KINDS
from e2e.chaos.report import markdown, show
from e2e.chaos.run import Chaos
from e2e.faults import NoNodeError
from e2e.install import installed, namespaced
from e2e.previous import previous_version
from e2e.recording import recording
from e2e.scenarios.drill import now
from e2e.scenarios.space import Space
from e2e.terminal import console, say
from tools.choice import chosen
from tools.cluster import ClusterError, obtain
from tools.interrupts import raised
from tools.pages import fill

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


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
    only: Annotated[
        list[str] | None, typer.Option(help="Only kinds of which this is a part of the title.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Replace a section of this page.")] = None,
) -> None:
    """Hit jobs that train with random faults, and report what came of it."""
    kinds = chosen(KINDS, only, lambda kind: kind.title)
    try:
        with raised(), obtain(say=say) as cluster, installed(cluster, say):
            name = f"chaos-{secrets.token_hex(3)}"
            space = Space(cluster, name)
            with (
                namespaced(cluster, name),
                recording(cluster, name) as record,
                ExitStack() as stack,
            ):
                previous = None
                if not operator_kills and any(kind.needs_previous for kind in kinds):
                    previous = stack.enter_context(previous_version(cluster, say))
                chaos = Chaos(space, record, seed, say, previous)
                if operator_kills:
                    outcome = chaos.run_operator_kills(jobs, operator_kills, at_once)
                else:
                    outcome = chaos.run(jobs, faults, at_once, now() + 60 * minutes, kinds)
    except (ClusterError, NoNodeError) as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(1) from error
    show(console, outcome)
    if page is not None:
        section = "operator killed" if operator_kills else "random faults"
        fill(page, section, markdown(outcome))
    for wrong in outcome.errors:
        console.print(f"[red]wrong[/] {escape(wrong)}", soft_wrap=True)
    raise typer.Exit(1 if outcome.errors else 0)


if __name__ == "__main__":
    sys.exit(app())
