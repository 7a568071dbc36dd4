"""The command that shows jobs in a browser: web."""

from typing import Annotated

import typer

from tftraining.cli.commands.options import Context, Namespace

app = typer.Typer()


@app.command("web")
def web(
    *,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Show the jobs of all namespaces.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", help="Port of this computer; 0 chooses a free one.", min=0, max=65535
        ),
    ] = 0,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show jobs in a browser: state, progress, curves, pods. It changes nothing.

    It is served on this computer only, at an address that others cannot guess, with the rights of
    the kubeconfig; Ctrl-C ends it.

    Example: `tftj web -n training`
    """
    from tftraining.cli import web_page

    web_page.show(namespace, context, port, everywhere=everywhere)
