"""Commands that change jobs: submit, scale, suspend, resume, restart, delete."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from tftraining.cli.commands import options
from tftraining.cli.commands.options import Context, Name, Names, Namespace, Timeout

app = typer.Typer()


class StrategyName(StrEnum):
    """Values of --strategy."""

    PARAMETER_SERVER = "ParameterServer"
    MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
    MIRRORED = "Mirrored"


@app.command("submit", no_args_is_help=True)
def submit(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="YAML file with the job (- for standard input), or Python file or folder.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- ARGUMENTS]",
            help="Arguments of the trainer, after --, such as --epochs=5; for Python code.",
            show_default=False,
        ),
    ] = None,
    *,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Name of the job; by default that of the file.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File of the folder with model() and dataset(); by default task.py.",
            show_default=False,
        ),
    ] = None,
    strategy: Annotated[
        StrategyName, typer.Option(help="Strategy of a job made of Python code.")
    ] = StrategyName.PARAMETER_SERVER,
    workers: Annotated[int, typer.Option(metavar="N", help="Workers.", min=0, max=1000)] = 1,
    ps: Annotated[int, typer.Option(metavar="N", help="Parameter servers.", min=1, max=1000)] = 1,
    evaluator: Annotated[
        bool, typer.Option("--evaluator", help="Evaluate checkpoints; requires --checkpoint.")
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="CLAIM",
            help="PersistentVolumeClaim for checkpoints; without one, a restart begins at step 0.",
            show_default=False,
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Image; by default the operator's trainer image.",
            show_default=False,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", metavar="NAME=VALUE", help="Environment variable; may be repeated."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete a job of the same name first.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Show the progress until the job has finished.")
    ] = False,
    timeout: Timeout = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent, as YAML, and end.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Start a job from a manifest, or from Python code. No image is built.

    Python code is a file with `model()` and `dataset()`, or a folder with such a file. It is put
    into a ConfigMap, which every pod mounts and which is deleted with the job. A manifest is sent
    to the namespace that it names.

    With `--wait`, exit codes are those of `tftj wait`.

    Example: `tftj submit task.py --workers 2 --wait -- --epochs=5`
    """
    from tftraining_operator.api.types import Strategy

    from tftraining import sources, submission
    from tftraining.cli import console, durations
    from tftraining.cli.watching import watch
    from tftraining.code import Wanted
    from tftraining.errors import InputError

    limit = durations.seconds("--timeout", timeout)
    if limit is not None and not wait:
        raise InputError("--timeout: add --wait, which it is about, or omit it")
    wanted = Wanted(
        name=name,
        strategy=Strategy(strategy.value),
        workers=workers,
        ps=ps,
        evaluator=evaluator,
        claim=checkpoint,
        image=image,
        variables=options.pairs("--env", env),
        arguments=tuple(arguments or ()),
    )
    plan = sources.plan(source, task, wanted)
    submission.check(plan.job, source)
    namespace = submission.namespace_of(plan.job, namespace, source)
    if dry_run:
        console.document(sources.as_yaml(plan, namespace))
        return
    client = options.client(namespace, context)
    name = client.send(plan, replace=replace, say=console.note).name
    console.show(f"{name}: submitted to namespace {client.namespace}")
    if wait:
        raise typer.Exit(watch(client, name, limit))
    given = {"-n": namespace, "--context": context}
    job = " ".join([name, *(f"{option} {value}" for option, value in given.items() if value)])
    console.note(f"tftj progress {job} follows it, tftj logs {job} -f shows its logs")


@app.command("scale", no_args_is_help=True)
def scale(
    name: Name,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of workers.", min=0, max=1000)],
    *,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Change the number of workers while the job runs.

    When new workers are ready, the chief restarts once from its newest checkpoint; this does not
    count toward backoffLimit.

    Example: `tftj scale mnist --workers 4`
    """
    from tftraining.cli import console

    console.show(options.client(namespace, context).scale(name, workers))


@app.command("suspend", no_args_is_help=True)
def suspend(names: Names, *, namespace: Namespace = None, context: Context = None) -> None:
    """Stop jobs until `tftj resume`. Each saves a checkpoint and deletes its pods.

    Example: `tftj suspend mnist`
    """
    client = options.client(namespace, context)
    _show_each(client.suspend, names)


@app.command("resume", no_args_is_help=True)
def resume(names: Names, *, namespace: Namespace = None, context: Context = None) -> None:
    """Continue suspended jobs from their newest checkpoints.

    Example: `tftj resume mnist`
    """
    client = options.client(namespace, context)
    _show_each(client.resume, names)


@app.command("restart", no_args_is_help=True)
def restart(names: Names, *, namespace: Namespace = None, context: Context = None) -> None:
    """Restart the training of jobs from their newest checkpoints.

    Of a running job the chief is restarted; this does not count toward backoffLimit. A job that has
    ended is deleted and created again with the same spec, unless the API server would refuse that;
    until it is created, a file keeps its manifest. A job of the trainer that has succeeded is
    refused if its checkpoints are on a volume or in an object store, unless checkpoint.resumeFrom
    names them.

    Example: `tftj restart mnist`
    """
    from tftraining.cli import console

    client = options.client(namespace, context)
    _show_each(lambda name: client.restart(name, say=console.note), names)


@app.command("delete", no_args_is_help=True)
def delete(
    names: Names,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the jobs and their pods are gone.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Delete jobs with their pods; checkpoints on volumes are kept.

    To be certain of the last steps of a running job, suspend it before.

    Example: `tftj delete mnist`
    """
    client = options.client(namespace, context)
    _show_each(lambda name: client.delete(name, wait=wait), names)


def _show_each(change: Callable[[str], str], names: list[str]) -> None:
    """Show what was done to each job; what could not be done to one does not stop the rest."""
    from tftraining.cli import console
    from tftraining.errors import TFTrainingError, UnreachableError

    errors: list[TFTrainingError] = []
    for name in names:
        try:
            console.show(change(name))
        except TFTrainingError as error:
            errors.append(error)
            if isinstance(error, UnreachableError):
                break  # so it would be for the others, each after a while
    if errors:
        raise type(errors[0])("\n".join(map(str, errors))) from errors[0]
