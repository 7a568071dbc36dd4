"""The command line of the cluster tooling: python -m tools.cluster COMMAND."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.cluster import check as checks
from tools.cluster import engine, images
from tools.cluster.binaries import SOURCES, binary, version
from tools.cluster.cache import cache_dir
from tools.cluster.cluster import NAME, alone, down, find, keep_up, up
from tools.cluster.machine import look
from tools.cluster.shell import ClusterError, NoClusterError, Say, succeeds

app = typer.Typer(
    help="The cluster of tests and demo: the one in KUBECONFIG, or kind, with or without Docker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)
Name = Annotated[str, typer.Option(help="The cluster's name.")]


@app.command("up")
def up_command(
    name: Name = NAME,
    workers: Annotated[
        int, typer.Option(help="Number of worker nodes, without the control plane.")
    ] = 0,
) -> None:
    """Start the cluster unless it is running, and print its KUBECONFIG."""
    with _progress() as say:
        cluster = up(name, say=say, workers=workers)
    keep_up(name)
    console.print(f"[green]ready[/]  export KUBECONFIG={cluster.kubeconfig}", soft_wrap=True)
    if cluster.docker:
        console.print(f"        export DOCKER_HOST={cluster.docker.get('DOCKER_HOST', '')}")


@app.command("down")
def down_command(name: Name = NAME) -> None:
    """Delete the cluster and everything that came with it."""
    with _progress() as say, alone(name, say):
        rest = down(name, say=say)
    if rest:
        raise ClusterError("could not remove:\n" + "\n".join(rest))
    if engine.pid() is None:
        console.print("[green]deleted[/]; only the cache is kept, for a quick start next time")
    else:
        console.print("[green]deleted[/]; the engine keeps running for its other clusters")


@app.command()
def status(name: Name = NAME) -> None:
    """Show the engine, the cache, the cluster and its nodes."""
    running = engine.pid() is not None
    console.print(f"own engine: {'running' if running else 'not running'}; cache: {cache_dir()}")
    cluster = find(name, say=_line)
    console.print(f"cluster {cluster.name}: KUBECONFIG={cluster.kubeconfig}", soft_wrap=True)
    console.print(escape(cluster.kubectl("get", "nodes", "--output", "wide")), soft_wrap=True)


@app.command("check")
def check_command(name: Name = NAME) -> None:
    """Test a new service, DNS, a volume written by a non-root user, and a loaded image."""
    cluster = find(name, say=_line)
    failed = 0
    for finding in checks.check(cluster):
        failed += bool(finding.error)
        mark = "[red]failed[/]" if finding.error else "[green]ok[/]"
        console.print(f"{mark:16} {finding.step} ({finding.seconds:.1f} s)")
        if finding.error:
            console.print(escape(finding.error))
    raise typer.Exit(1 if failed else 0)


@app.command()
def load(image: str, name: Name = NAME) -> None:
    """Load an image of the engine into the cluster's nodes."""
    with _progress() as say:
        say(f"loading {image}")
        find(name, say=_line).load(image)


@app.command()
def binaries(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Build the programs named, or all, and print their paths."""
    with _progress() as say:
        paths = [binary(name, say) for name in names or SOURCES]
    for path in paths:
        print(path)


@app.command("images")
def images_command(name: Name = NAME) -> None:
    """Build the project's images and load them into the cluster."""
    # Who uses the cluster would go on with other images.
    with _progress() as say, alone(name, say):
        cluster = up(name, say=say)
        keep_up(name)
        for image in images.build_images(say=say):
            say(f"loading {image}")
            cluster.load(image)


@app.command()
def gpu_image() -> None:
    """Build the trainer's image for GPUs, and print its name."""
    # Who uses the cluster may stop the engine with it.
    with _progress() as say, alone(NAME, say):
        name = images.build_gpu_image(say)
    print(name)


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
    """Show what this machine has and how a cluster would be started on it."""
    machine = look()
    answers = succeeds(["docker", "version"], timeout=20)
    none = "own, running" if engine.pid() is not None else "none answers; our own would start"
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
        raise NoClusterError(machine.why_no_engine)


def _line(text: str) -> None:
    console.print(f"[dim]·[/] {escape(text)}", soft_wrap=True)


@contextmanager
def _progress() -> Iterator[Say]:
    """Print each step, and show the current one with a spinner."""
    with console.status("starting", spinner="dots") as spinner:

        def say(text: str) -> None:
            _line(text)
            spinner.update(f"[dim]{escape(text)} …[/]")

        yield say


def main() -> None:
    """Run the command line; print a ClusterError as its message, without a traceback."""
    try:
        app()
    except ClusterError as error:
        Console(stderr=True, highlight=False).print(f"[red]error[/] {escape(str(error))}")
        sys.exit(1)


if __name__ == "__main__":
    main()
