"""Commands that show and fetch what a training gave: metrics, get-model."""

from pathlib import Path
from typing import Annotated

import typer

from tftraining.cli.commands import options
from tftraining.cli.commands.options import Context, Name, Namespace
from tftraining.cli.output_format import DocumentFormat

app = typer.Typer()


@app.command("metrics", no_args_is_help=True)
def metrics(
    name: Name,
    *,
    output: Annotated[
        DocumentFormat | None,
        typer.Option("--output", "-o", help="Form of the output.", show_default=False),
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show the newest values of training, evaluation and export.

    Their history is in the logs that `tftj tensorboard` shows. With -o, a value that is no finite
    number is text, such as "nan".

    Example: `tftj metrics mnist -o json`
    """
    from tftraining.cli import console
    from tftraining.cli import output as outputs

    client = options.client(namespace, context)
    records = client.metrics(name)
    if output is not None:
        console.document(outputs.dumped(outputs.finite(records), output))
    elif records:
        for line in outputs.metric_lines(records):
            console.show(line)
    else:
        console.note(f"{client.get(name)}; it has not reported a value yet")


@app.command("get-model", no_args_is_help=True)
def get_model(
    name: Name,
    *,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where to copy it; by default ./JOB-model.", show_default=False
        ),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="The best model (--keep-best), and not the last one.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Copy the exported model of a job to this computer.

    It is put into FOLDER/STEP.

    A short-lived pod that mounts the job's volume sends it: you need the rights to get, list,
    create and delete pods, and to create and get pods/exec. TensorFlow Serving takes FOLDER,
    `tf.saved_model.load` FOLDER/STEP.

    Example: `tftj get-model mnist --to models/mnist`
    """
    from tftraining.cli import console

    client = options.client(namespace, context)
    console.show(str(client.get_model(name, to, best=best, say=console.note)))
