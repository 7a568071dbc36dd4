"""The command line: python -m e2e.scenarios.broken_jobs --page docs/guide/troubleshooting.md."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from e2e.install import installed
from e2e.scenarios.broken_jobs.broken_job import BrokenJob, Told, missing
from e2e.scenarios.broken_jobs.code import STARTING, TRAINING
from e2e.scenarios.broken_jobs.looking import told_of
from e2e.scenarios.broken_jobs.manifests import WAITING
from e2e.scenarios.broken_jobs.page import markdown
from e2e.terminal import console, say
from tools.choice import chosen
from tools.cluster import ClusterError, obtain
from tools.interrupts import raised
from tools.pages import fill

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SECTIONS = {"jobs that do not start": (WAITING, 10), "jobs that fail": (STARTING + TRAINING, 6)}
"""The tables of the page, and how many of their jobs a machine of two cores runs at once."""


@app.command()
def main(
    *,
    only: Annotated[
        list[str] | None, typer.Option(help="Only jobs of which this is a part of the name.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Replace the tables of this page.")] = None,
) -> None:
    """Run jobs with one mistake each; fail if a user is not told the cause and the remedy."""
    lacking = []
    wanted = chosen(
        (job for jobs, _ in SECTIONS.values() for job in jobs), only, lambda job: job.name
    )
    try:
        with raised(), obtain(say=say) as cluster, installed(cluster, say):
            for section, (jobs, at_once) in SECTIONS.items():
                broken = [job for job in jobs if job in wanted]
                if not broken:
                    continue
                told = told_of(cluster, broken, at_once=at_once, say=say)
                lacking += _show(broken, told)
                if page is not None:
                    fill(page, section, markdown(broken, told))
    except ClusterError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(1) from error
    raise typer.Exit(1 if lacking else 0)


def _show(jobs: Sequence[BrokenJob], told: Sequence[Told]) -> list[str]:
    """Print what was said; return what it lacks."""
    wrong = []
    for job, each in zip(jobs, told, strict=True):
        console.rule(f"{job.name}: {job.mistake}")
        for text in (f"{each.state}: {each.message}", each.described, each.event):
            console.print(escape(text), soft_wrap=True)
        for word in (lacking := missing(job, each)):
            console.print(f"[red]missing[/] {escape(word)}", soft_wrap=True)
        wrong += lacking
    return wrong


if __name__ == "__main__":
    sys.exit(app())
