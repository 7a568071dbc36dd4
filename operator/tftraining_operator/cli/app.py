"""The commands of `tftj`, and what their help says."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tftraining_operator.cli import tensorboard as tensorboard_command
from tftraining_operator.cli.errors import CommandError, InputError
from tftraining_operator.cli.local.session import Choices, run_local

app = typer.Typer(
    name="tftj",
    help="Train TensorFlow models with TFTrainingJobs, in a cluster or on this computer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Python = Annotated[
    str | None,
    typer.Option(
        envvar="TFTJ_PYTHON",
        metavar="PROGRAM",
        help="Python that has what is needed; by default the one that runs tftj.",
        show_default=False,
    ),
]


def main() -> None:
    """Run the command line; the process ends here."""
    # kubectl runs a plugin by its own path: its users type `kubectl tftj`.
    called = "kubectl tftj" if Path(sys.argv[0]).name.startswith("kubectl-") else "tftj"
    try:
        app(prog_name=called)
    except CommandError as error:
        console = Console(stderr=True, highlight=False)
        for text in str(error).splitlines():
            console.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)
        sys.exit(error.code)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        try:
            typer.echo(f"tftj {version('tftraining-operator')}")
        except PackageNotFoundError:
            typer.echo("tftj, not installed: run from its sources")
        raise typer.Exit


@app.callback()
def common(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Hold what all commands share."""


@app.command("run", no_args_is_help=True)
def run_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML file with the job; - for standard input.")
    ],
    *,
    local: Annotated[
        bool, typer.Option("--local", help="Run on this computer; there is no other place yet.")
    ] = False,
    python: Python = None,
    checkpoint_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where checkpoints and TensorBoard logs are kept; by default ./JOB-checkpoints.",
            show_default=False,
        ),
    ] = None,
    log_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the output of each process is kept; by default ./JOB-logs.",
            show_default=False,
        ),
    ] = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Show the output of all processes as it comes.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME=VALUE",
            help="Variable for all processes, over what the file says; may be repeated.",
        ),
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FOLDER",
            help="Folder in place of one of the job's volumes; may be repeated.",
        ),
    ] = None,
) -> None:
    """Run a job as processes on this computer, without a cluster.

    The file is the one that a cluster gets. Each pod becomes a process; the same code as in the
    operator builds them, gives them TF_CONFIG, restarts what fails within backoffLimit, and decides
    when the job is done. ConfigMaps and Secrets in the same file are laid out as folders.

    Ctrl-C ends all processes, after the chief has saved a checkpoint; a second Ctrl-C at once. The
    same command then goes on from that checkpoint.

    Exit codes: 0 the job succeeded, 1 it failed, 2 the file or an option is wrong, 130 ended by
    Ctrl-C, 143 by SIGTERM.

    Example: `tftj run --local examples/mnist.yaml`
    """
    if not local:
        raise InputError(
            "run: only --local is there yet: add it, or give the file to a cluster with"
            f" kubectl apply -f {file}"
        )
    choices = Choices(
        file=file,
        python=python,
        checkpoint_dir=checkpoint_dir,
        log_dir=log_dir,
        show_logs=logs,
        variables=_pairs("--env", env),
        folders={name: Path(path).absolute() for name, path in _pairs("--volume", volume).items()},
    )
    raise typer.Exit(run_local(choices, Console(highlight=False)))


@app.command("tensorboard", no_args_is_help=True)
def tensorboard(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|FILE|JOB",
            help="Checkpoint folder, YAML file of a local run, or name of a job in the cluster.",
        ),
    ],
    *,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace of a job in the cluster."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port on this computer.", min=1, max=65535)] = 6006,
    image: Annotated[
        str | None,
        typer.Option(
            help="Image that has TensorBoard, for a job in the cluster; by default the job's own.",
            show_default=False,
        ),
    ] = None,
    python: Python = None,
) -> None:
    """Show the TensorBoard logs of a job, on http://127.0.0.1:6006 of this computer.

    Of a local run: give its checkpoint folder, or its YAML file where it was run.

    Of a job in a cluster: give its name. A pod that mounts the job's checkpoint volume read-only
    runs TensorBoard, kubectl forwards the port, and Ctrl-C deletes the pod; it ends by itself after
    8 hours. kubectl must be on the PATH.

    Examples: `tftj tensorboard mnist-checkpoints`, `tftj tensorboard mnist -n training`
    """
    console = Console(highlight=False)
    raise typer.Exit(
        tensorboard_command.show(
            what, namespace=namespace, port=port, image=image, python=python, console=console
        )
    )


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or []]
    for name, equals, value in pairs:
        if not name or not equals:
            raise InputError(f"{option}: {name}{equals}{value} is not of the form NAME=VALUE")
    return {name: value for name, _, value in pairs}
