"""Commands that show jobs: list, get, describe, logs, progress, wait."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tftraining.cli.commands import options
from tftraining.cli.commands.options import Context, Name, Namespace, OutputOption, Timeout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tftraining.view.log_lines import Line

app = typer.Typer()


class Goal(StrEnum):
    """Values of --for; cli/following.py says which condition each is."""

    FINISHED = "finished"
    RUNNING = "running"
    READY = "ready"
    SUSPENDED = "suspended"


class RoleName(StrEnum):
    """Values of --role."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


@app.command("list")
def list_jobs(
    *,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="List the jobs of all namespaces.")
    ] = False,
    selector: Annotated[
        str,
        typer.Option(
            "--selector",
            "-l",
            metavar="LABELS",
            help="Only jobs with these labels, such as team=vision.",
        ),
    ] = "",
    output: OutputOption = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """List jobs with their state and progress.

    Example: `tftj list -n training -o wide`
    """
    from tftraining.cli import console
    from tftraining.cli.output import show_jobs

    client = options.client(namespace, context)
    # Not parsed: the table has what is stored, also of jobs of a newer version.
    jobs = client.cluster.jobs(selector=selector, everywhere=everywhere)
    if not jobs and output is None:
        where = "in any namespace" if everywhere else f"in namespace {client.namespace}"
        console.note(f"no jobs {where}")
        return
    show_jobs(jobs, output, everywhere=everywhere)


@app.command("get", no_args_is_help=True)
def get(
    name: Name,
    *,
    output: OutputOption = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show one job as a row of the table, or whole with -o yaml.

    Example: `tftj get mnist -o yaml`
    """
    from tftraining.cli.output import show_jobs

    job = options.client(namespace, context).cluster.job(name)
    show_jobs([job], output, one=True)


@app.command("describe", no_args_is_help=True)
def describe(name: Name, *, namespace: Namespace = None, context: Context = None) -> None:
    """Show what a job does, and why it does not run or failed.

    The first line says it.

    Example: `tftj describe mnist`
    """
    from tftraining.cli import console

    first, *lines = options.client(namespace, context).describe(name).splitlines()
    out = console.out()
    out.print(first, soft_wrap=True, style="bold")
    for line in lines:
        out.print(line, soft_wrap=True)


@app.command("logs", no_args_is_help=True)
def logs(
    name: Name,
    *,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Follow until the job has finished, across restarts."),
    ] = False,
    role: Annotated[
        RoleName | None, typer.Option(help="Only this role.", show_default=False)
    ] = None,
    index: Annotated[
        int | None,
        typer.Option(metavar="N", help="Only the pod with this index.", show_default=False, min=0),
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="The logs before the last restart in place.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Only the last lines of each pod; with -f, of those that run already.",
            show_default=False,
            min=0,
        ),
    ] = None,
    container: Annotated[
        str, typer.Option("--container", "-c", metavar="NAME", help="Another container.")
    ] = "tensorflow",
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Show when each line was written.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show the logs of all pods of a job together, ordered by time.

    Each line begins with the pod's role and index.

    Example: `tftj logs mnist -f --role worker`
    """
    from tftraining.cli import console
    from tftraining.view.log_lines import label_width

    lines: Iterable[Line] = options.client(namespace, context).logs(
        name,
        follow=follow,
        role=role.value if role else None,
        index=index,
        previous=previous,
        tail=tail,
        container=container,
        say=console.note,
    )
    from rich.text import Text

    from tftraining.view.training import ROLE_COLOURS

    out = console.out()
    width = 0
    if not follow:  # it is complete, so the width of all labels is known
        lines = list(lines)
        width = label_width([line.source for line in lines])
    for line in lines:
        width = max(width, len(line.source.label))
        label = f"{line.source.label:{width}} "
        time = f"{line.time} " if timestamps else ""
        if not out.is_terminal:
            console.write(f"{label}{time}{line.shown}\n")
            continue
        parts = ((label, ROLE_COLOURS[line.source.role]), (time, "dim"), line.shown)
        out.print(Text.assemble(*parts), soft_wrap=True)


@app.command("progress", no_args_is_help=True)
def progress(
    name: Name,
    *,
    once: Annotated[bool, typer.Option("--once", help="Show the present state and end.")] = False,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Follow the progress of a job until it has finished.

    It shows steps, rate, loss, time left and roles; in a pipe it prints lines. Exit codes are those
    of `tftj wait`.

    Example: `tftj progress mnist`
    """
    from tftraining.cli import durations
    from tftraining.cli.watching import show_once, watch

    limit = durations.seconds("--timeout", timeout)
    client = options.client(namespace, context)
    if once:
        show_once(client, name)
        return
    raise typer.Exit(watch(client, name, limit))


@app.command("wait", no_args_is_help=True)
def wait(
    name: Name,
    *,
    goal: Annotated[
        Goal, typer.Option("--for", help="What to wait for; the end of the job always ends it.")
    ] = Goal.FINISHED,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Wait for the end of a job, or until it runs.

    It prints the first line of `tftj describe` then. Exit codes: 0 the job succeeded (or runs, with
    `--for running`), 1 it failed, 2 the time is over, 3 there is no such job.

    Example: `tftj wait mnist --timeout 2h`
    """
    from tftraining.cli import durations
    from tftraining.cli.watching import wait as wait_for

    limit = durations.seconds("--timeout", timeout)
    client = options.client(namespace, context)
    raise typer.Exit(wait_for(client, name, goal.value, limit))
