"""The command line: python -m tools.cluster COMMAND."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from tools.cluster import check as checks
from tools.cluster import engine, images
from tools.cluster.binaries import SOURCES, binary, version
from tools.cluster.cache import cache_dir
from tools.cluster.cluster import NAME, down, find, up
from tools.cluster.machine import look
from tools.cluster.shell import ClusterError, Say, succeeds

app = typer.Typer(
    help="A real Kubernetes cluster: that of your KUBECONFIG, else kind, also without Docker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)
Name = Annotated[str, typer.Option(help="The cluster's name.")]


@app.command("up")
def up_command(
    name: Name = NAME,
    workers: Annotated[int, typer.Option(help="Worker nodes beside the control plane.")] = 0,
) -> None:
    """Have a cluster, and print the KUBECONFIG to use."""
    with _telling() as say:
        cluster = up(name, say=say, workers=workers)
    console.print(f"[green]ready[/]  export KUBECONFIG={cluster.kubeconfig}", soft_wrap=True)
    if cluster.docker:
        console.print(f"        export DOCKER_HOST={cluster.docker.get('DOCKER_HOST', '')}")


@app.command("down")
def down_command(name: Name = NAME) -> None:
    """Take the cluster away, with everything that came with it."""
    with _telling() as say:
        rest = down(name, say=say)
    if rest:
        raise ClusterError("these could not be taken away:\n" + "\n".join(rest))
    if engine.pid() is None:
        console.print("[green]nothing is left[/] but the cache, which makes the next time quick")
    else:
        console.print("[green]deleted[/]; the engine stays for its other clusters")


@app.command()
def status(name: Name = NAME) -> None:
    """Say what is up."""
    running = engine.pid() is not None
    console.print(f"our engine: {'runs' if running else 'does not run'}; cache: {cache_dir()}")
    cluster = find(name, say=_line)
    console.print(f"cluster {cluster.name}: KUBECONFIG={cluster.kubeconfig}", soft_wrap=True)
    console.print(escape(cluster.kubectl("get", "nodes", "--output", "wide")), soft_wrap=True)


@app.command("check")
def check_command(name: Name = NAME) -> None:
    """Try a fresh service, DNS, a volume written by a non-root user, and a loaded image."""
    cluster = find(name, say=_line)
    failed = 0
    for finding in checks.check(cluster):
        failed += bool(finding.trouble)
        mark = "[red]failed[/]" if finding.trouble else "[green]ok[/]"
        console.print(f"{mark:16} {finding.step} ({finding.seconds:.1f} s)")
        if finding.trouble:
            console.print(escape(finding.trouble))
    raise typer.Exit(1 if failed else 0)


@app.command()
def load(image: str, name: Name = NAME) -> None:
    """Give the cluster's nodes an image of the engine's."""
    with _telling() as say:
        say(f"loading {image}")
        find(name, say=_line).load(image)


@app.command()
def binaries(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Build programs (all, when none is named) and print their paths."""
    with _telling() as say:
        paths = [binary(name, say) for name in names or SOURCES]
    for path in paths:
        print(path)


@app.command("images")
def images_command(name: Name = NAME) -> None:
    """Build the project's images and load them into the cluster."""
    with _telling() as say:
        cluster = up(name, say=say)
        for image in images.build_images(say=say):
            say(f"loading {image}")
            cluster.load(image)


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def kubectl(context: typer.Context, name: Name = NAME) -> None:
    """Run kubectl against the cluster: kubectl -- get pods."""
    cluster = find(name, say=_line)
    program = str(cluster.tool("kubectl"))
    sys.stdout.flush()
    os.execve(  # noqa: S606
        program, [program, *context.args], {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    )


@app.command()
def doctor() -> None:
    """Say what this machine is and which way a cluster would be had here."""
    machine = look()
    answers = succeeds(["docker", "version"], timeout=20)
    none = "ours runs" if engine.pid() is not None else "none answers; ours would be started"
    table = Table(show_header=False, box=None)
    for what, found in {
        "Docker engine": "answers" if answers else none,
        "root": machine.root,
        "Debian": machine.debian or "no",
        "Go": succeeds(["go", "version"]),
        "cgroups": "v1" if machine.cgroup_v1 else "v2",
        "CAP_SYS_RESOURCE": machine.sys_resource,
        "cache": cache_dir(),
        "kind": version("kind", "sigs.k8s.io/kind"),
    }.items():
        shown = {True: "yes", False: "no"}.get(found, found) if isinstance(found, bool) else found
        table.add_row(what, str(shown))
    console.print(table)
    if not answers and machine.why_no_engine:
        raise ClusterError(machine.why_no_engine)


def _line(text: str) -> None:
    console.print(f"[dim]·[/] {escape(text)}", soft_wrap=True)


@contextmanager
def _telling() -> Iterator[Say]:
    """Show each line, and the last one with a running clock while it lasts."""
    with console.status("starting", spinner="dots") as spinner:

        def say(text: str) -> None:
            _line(text)
            _now(spinner, text)

        yield say


def _now(spinner: Status, text: str) -> None:
    spinner.update(f"[dim]{escape(text)} …[/]")


def main() -> None:
    """Run, and show an error of ours as its message alone."""
    try:
        app()
    except ClusterError as error:
        Console(stderr=True, highlight=False).print(f"[red]error[/] {escape(str(error))}")
        sys.exit(1)


if __name__ == "__main__":
    main()
