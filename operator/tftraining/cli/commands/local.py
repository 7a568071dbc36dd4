"""`tftj run` and `tftj tensorboard`."""

from pathlib import Path
from typing import Annotated

import typer

from tftraining.cli.commands.options import Context, Namespace, Python, pairs

app = typer.Typer()


@app.command("run", no_args_is_help=True)
def run(
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
            "--local", help="Run on this computer; required: for a cluster, use tftj submit."
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
    from tftraining.cli import console
    from tftraining.cli.local.session import Choices, run_local
    from tftraining.errors import InputError

    if not local:
        raise InputError(
            f"run: --local is required: it runs on this computer; to run the job in a cluster, use"
            f" tftj submit {file}"
        )
    choices = Choices(
        file=file,
        python=python,
        checkpoint_dir=checkpoint_dir,
        log_dir=log_dir,
        show_logs=logs,
        variables=pairs("--env", env),
        folders={name: Path(path).absolute() for name, path in pairs("--volume", volume).items()},
    )
    # A pipe or terminal that is closed must not end the run before the chief has saved.
    raise typer.Exit(run_local(choices, console.unfailing_out()))


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
    namespace: Namespace = None,
    context: Context = None,
    port: Annotated[int, typer.Option(metavar="PORT", help="Local port.", min=1, max=65535)] = 6006,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
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

    Example: `tftj tensorboard mnist -n training`
    """
    from tftraining.cli import console
    from tftraining.cli import tensorboard as command

    raise typer.Exit(
        command.show(
            what,
            namespace=namespace,
            context=context,
            port=port,
            image=image,
            python=python,
            console=console.out(),
        )
    )
