"""The commands of `tftj`, with their options and help."""

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
        help="Python with the required packages; by default the one that runs tftj.",
        show_default=False,
    ),
]


def main() -> None:
    """Run the command line; the process ends here."""
    # kubectl runs a plugin as kubectl-NAME; its users type `kubectl tftj`.
    name = "kubectl tftj" if Path(sys.argv[0]).name.startswith("kubectl-") else "tftj"
    try:
        app(prog_name=name)
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
            typer.echo("tftj (not installed, run from source)")
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
    """Define the options that all commands share."""


@app.command("run", no_args_is_help=True)
def run_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="YAML file that contains the job; - for standard input."
        ),
    ],
    *,
    local: Annotated[
        bool,
        typer.Option(
            "--local", help="Run on this computer; required: only local runs are supported."
        ),
    ] = False,
    python: Python = None,
    checkpoint_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for checkpoints and TensorBoard logs; by default ./JOB-checkpoints.",
            show_default=False,
        ),
    ] = None,
    log_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the output of each process; by default ./JOB-logs.",
            show_default=False,
        ),
    ] = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Show the output of all processes while they run.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME=VALUE",
            help="Environment variable for all processes; overrides the file; may be repeated.",
        ),
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FOLDER",
            help="Folder to use for one of the job's volumes; may be repeated.",
        ),
    ] = None,
) -> None:
    """Run a job as processes on this computer, without a cluster.

    The file is the one that you would apply to a cluster. Each pod becomes a process: the
    operator's own reconciler starts it with its TF_CONFIG, restarts it within backoffLimit, and
    decides when the job is finished. ConfigMaps and Secrets in the same file become folders.

    Ctrl-C stops all processes after the chief has saved a checkpoint; a second Ctrl-C stops them at
    once. The same command then resumes from that checkpoint.

    Exit codes: 0 the job succeeded, 1 it failed, 2 the file or an option is wrong, 130 stopped by
    Ctrl-C, 143 stopped by SIGTERM.

    Example: `tftj run --local examples/mnist.yaml`
    """
    if not local:
        raise InputError(
            "run: --local is required: only local runs are supported; to run the job in a cluster,"
            f" use kubectl apply -f {file}"
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
            help="Checkpoint folder, YAML file of a local run, or name of a job in a cluster.",
        ),
    ],
    *,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace of a job in a cluster."),
    ] = None,
    port: Annotated[int, typer.Option(help="Local port.", min=1, max=65535)] = 6006,
    image: Annotated[
        str | None,
        typer.Option(
            help="Image with TensorBoard, for a job in a cluster; by default the job's own.",
            show_default=False,
        ),
    ] = None,
    python: Python = None,
) -> None:
    """Serve the TensorBoard logs of a job at http://127.0.0.1:6006.

    For a local run, name its checkpoint folder, or its YAML file in the directory of the run.

    For a job in a cluster, give its name. A pod that mounts the job's checkpoint volume read-only
    runs TensorBoard, and kubectl forwards the port. Ctrl-C deletes the pod; otherwise it exits
    after 8 hours. kubectl must be on the PATH.

    Examples: `tftj tensorboard mnist-checkpoints`, `tftj tensorboard mnist -n training`
    """
    console = Console(highlight=False)
    raise typer.Exit(
        tensorboard_command.show(
            what, namespace=namespace, port=port, image=image, python=python, console=console
        )
    )


def _pairs(option: str, values: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in values or []]
    for name, equals, value in pairs:
        if not name or not equals:
            raise InputError(f"{option}: {name}{equals}{value} must have the form NAME=VALUE")
    return {name: value for name, _, value in pairs}
