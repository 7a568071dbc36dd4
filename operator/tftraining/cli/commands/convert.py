"""`tftj convert`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tftraining.cli.commands import options
from tftraining.cli.commands.options import Context, Namespace

app = typer.Typer()


class Target(StrEnum):
    """What jobs are converted to."""

    TFTRAININGJOB = "tftrainingjob"
    TFJOB = "tfjob"


@app.command("convert", no_args_is_help=True)
def convert(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="YAML files with jobs, folders of such files, or - for standard input; with"
            " --from-cluster, names of jobs.",
            show_default=False,
        ),
    ] = None,
    *,
    to: Annotated[
        Target,
        typer.Option(help="Kind to convert to: tftrainingjob from TFJobs, tfjob to go back."),
    ] = Target.TFTRAININGJOB,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write the files into this folder, and not to standard output.",
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="CLAIM|URI",
            help="Where checkpoints are, for an evaluator whose template does not say it.",
            show_default=False,
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="The operator's trainer image, with --to tfjob; by default that which status has.",
            show_default=False,
        ),
    ] = None,
    from_cluster: Annotated[
        bool,
        typer.Option("--from-cluster", help="Read the jobs of the namespace from the cluster."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Report no notes.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Convert TFJobs of Kubeflow to TFTrainingJobs, or back.

    These are TFJobs of kubeflow.org/v1. The report on standard error names each difference in
    meaning: `note`, the same in effect; `differs`, carried over with another meaning in some cases;
    `lost`, left out; `refused`, the job cannot be converted. Comments and all other objects are
    kept, and what is converted converts to itself.

    Exit codes: 0 all was carried over, 1 something was lost or refused, 2 a file is wrong.

    Example: `tftj convert tfjobs/ --output converted/`
    """
    from tftraining.cli import conversion
    from tftraining.cli.convert import directions
    from tftraining.errors import InputError

    back = to is Target.TFJOB
    if back and checkpoint is not None:
        raise InputError("convert: --checkpoint is for TFJobs; remove it, or --to tfjob")
    if not back and image is not None:
        raise InputError("convert: --image is for TFTrainingJobs; add --to tfjob, or remove it")
    direction = directions.to_tfjobs(image) if back else directions.to_tftrainingjobs(checkpoint)
    if from_cluster:
        cluster = options.client(namespace, context).cluster
        found = list(conversion.from_cluster(cluster, sources or [], direction))
    elif sources:
        found = list(conversion.from_files(sources))
    else:
        raise InputError("convert: name a file, a folder or -, or use --from-cluster")
    raise typer.Exit(conversion.convert(found, output, direction, quiet=quiet))
