"""Runs a program in a node of a kind cluster for the time of a block, as a service of its systemd.

For programs that belong on a node, such as a device plugin, and have no image. firewall.py does the
same with more care for what kube-router leaves behind.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.cluster.engine import Engine

_START = """\
systemctl stop "$1" 2>/dev/null || true
rm -rf "/opt/$1"
mkdir "/opt/$1"
"""
"""A run that was killed leaves its service and its folder."""

_END = """\
failed=0
if ! systemctl is-active --quiet "$1"; then
  journalctl --unit="$1" --lines=10
  failed=1
fi
systemctl stop "$1" 2>/dev/null || true
rm -r "/opt/$1"
exit $failed
"""


def folder_of(program: Path) -> str:
    """Return the folder of a program in the node."""
    return f"/opt/{program.name}"


@contextmanager
def running(
    engine: Engine, node: str, program: Path, *arguments: str, files: Path | None = None
) -> Iterator[None]:
    """Run a program in a node for the time of the block; its service has the program's name.

    The files of a folder lie beside it, in `folder_of(program)`. Raises ClusterError with the end
    of its log if it has ended by itself.
    """
    name, folder = program.name, folder_of(program)
    in_node = ("exec", node, "sh", "-euc")
    engine.docker(*in_node, _START, "sh", name)
    engine.docker("cp", program, f"{node}:{folder}/{name}")
    if files is not None:
        engine.docker("cp", f"{files}/.", f"{node}:{folder}")
    start = ("systemd-run", "--quiet", "--collect", f"--unit={name}", f"{folder}/{name}")
    engine.docker("exec", node, *start, *arguments)
    try:
        yield
    finally:
        engine.docker(*in_node, _END, "sh", name)
