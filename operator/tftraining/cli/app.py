"""The program `tftj`: its commands, and how errors end it."""

import gc
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup, TyperOption
from typer.exceptions import TyperException

from tftraining.cli.commands import change, convert, local, look, results, setup, web
from tftraining.errors import TFTrainingError


class _Group(TyperGroup):
    def get_help_option(self, ctx: typer.Context) -> TyperOption | None:  # type: ignore[override]
        """Return --help, which is False if it is not given: typer imports pydantic to read None."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run a command; a mistyped value or option is answered with the nearest one."""
        try:
            return super().invoke(ctx)
        except TyperException as error:
            from tftraining.cli.suggestions import suggest

            suggest(error)
            raise


app = typer.Typer(
    name="tftj",
    cls=_Group,
    help="Train TensorFlow models with TFTrainingJobs, in a cluster or on this computer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (change, look, web, results, local, convert, setup):
    app.add_typer(group.app)

_DEBUG = "TFTJ_VERBOSE"
_OBJECTS_BETWEEN_COLLECTIONS = 200_000
COMPLETE = "_TFTJ_COMPLETE"
"""The variable by which typer is asked what could stand in a line."""


def main() -> None:
    """Run the command line; the process ends here."""
    # The imports of a command make about 100,000 objects, none of which is garbage.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # Who wrote insecure-skip-tls-verify into the kubeconfig knows; it comes with each request.
    warnings.filterwarnings("ignore", message="Unverified HTTPS request")
    # kubectl runs a plugin as kubectl-NAME; its users type `kubectl tftj`.
    name = "kubectl tftj" if Path(sys.argv[0]).name.startswith("kubectl-") else "tftj"
    if COMPLETE in os.environ:  # set by the script that `tftj completion` prints
        from typer._completion_classes import completion_init

        completion_init()
    try:
        app(prog_name=name)
    except TFTrainingError as error:
        _end(str(error), error.code)
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody wants a traceback unasked
        text = f"unexpected {type(error).__name__}: {error}"
        _end(f"{text}\n-v after {name} shows where ({name} -v COMMAND ...); please report it", 1)
    finally:
        gc.freeze()  # else the interpreter's last collection looks at all that was imported


def _end(text: str, code: int) -> None:
    from rich.text import Text

    from tftraining.cli import console

    if os.environ.get(_DEBUG):
        traceback.print_exc()
    err = console.err()
    for line in text.splitlines():
        err.print(Text.assemble(("error: ", "bold red"), line), soft_wrap=True)
    sys.exit(code)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        from tftraining.cli.version import own_version

        typer.echo(f"tftj {own_version() or '(not installed, run from source)'}")
        raise typer.Exit


def _be_verbose(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        os.environ[_DEBUG] = "1"


@app.callback()
def common(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    _verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show the traceback of an error.",
            callback=_be_verbose,
        ),
    ] = False,
) -> None:
    """Train TensorFlow models with TFTrainingJobs, in a cluster or on this computer.

    Exit codes: 0 succeeded, 1 failed, 2 wrong use or timeout, 3 not found.

    Example: `tftj submit task.py --workers 2 --wait`
    """
