"""Commands about the installation: doctor, completion."""

from enum import StrEnum
from typing import Annotated

import typer

from tftraining.cli.commands import options
from tftraining.cli.commands.options import Context, Namespace

app = typer.Typer()


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command("doctor")
def doctor(*, namespace: Namespace = None, context: Context = None) -> None:
    """Check the cluster: the API, the operator and your rights.

    It says what to do about a problem. Exit codes: 0 all is well, 1 something is missing.

    Example: `tftj doctor -n training`
    """
    from datetime import UTC, datetime

    from rich.text import Text

    from tftraining.cli import console
    from tftraining.cli.checks import checks
    from tftraining.errors import ExitCode

    cluster = options.client(namespace, context).cluster
    failed = False
    for check in checks(cluster, datetime.now(UTC)):
        failed = failed or not check.ok
        mark = ("ok     ", "green") if check.ok else ("missing", "bold red")
        console.show(Text.assemble(mark, f"  {check.text}"))
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.SUCCEEDED)


@app.command("completion", no_args_is_help=True)
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Shell to complete in.")],
) -> None:
    """Print what completes commands and options in a shell.

    Example: `tftj completion bash > ~/.local/share/bash-completion/completions/tftj`
    """
    from typer._completion_shared import get_completion_script

    typer.echo(
        get_completion_script(prog_name="tftj", complete_var="_TFTJ_COMPLETE", shell=shell.value)
    )
