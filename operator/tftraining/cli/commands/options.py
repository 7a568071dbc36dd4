"""Options that several commands share."""

from typing import TYPE_CHECKING, Annotated

import typer

from tftraining.cli.output_format import OutputFormat

if TYPE_CHECKING:
    from tftraining.client import TFTrainingClient


Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAMESPACE",
        help="Namespace of the job; by default that of the context.",
        show_default=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="CONTEXT",
        help="Context of the kubeconfig (KUBECONFIG); by default the current one.",
        show_default=False,
    ),
]
OutputOption = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", help="Form of the output.", show_default=False),
]
Name = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.")]
Names = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of the jobs.")]
Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long to wait, such as 30s, 10m or 2h; by default without limit.",
        show_default=False,
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        envvar="TFTJ_PYTHON",
        metavar="PROGRAM",
        help="Python with the required packages; by default the one that runs tftj.",
        show_default=False,
    ),
]


def client(namespace: str | None, context: str | None) -> "TFTrainingClient":
    """Connect to the cluster of the kubeconfig. Raises TFTrainingError."""
    from tftraining.cli.lazy_imports import import_connection
    from tftraining.client import TFTrainingClient

    import_connection()
    return TFTrainingClient(namespace, context=context)


def pairs(option: str, values: list[str] | None) -> dict[str, str]:
    """Return the values of an option that is given as NAME=VALUE. Raises InputError."""
    from tftraining.errors import InputError

    split = [text.partition("=") for text in values or []]
    for name, equals, value in split:
        if not name or not equals:
            raise InputError(f"{option}: {name}{equals}{value} must have the form NAME=VALUE")
    return {name: value for name, _, value in split}
