"""Enforces NetworkPolicies in a cluster of ours: kube-router's firewall, in each of its nodes.

The pod network of the node image that is built here enforces none; that of kind's public image
does. It runs only for the time of a block, because it judges the traffic of all pods.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.cluster import kind
from tools.cluster.binaries import binary
from tools.cluster.cache import cache_dir, digest, kept, locked, scratch
from tools.cluster.cluster import Cluster
from tools.cluster.debian import root_filesystem
from tools.cluster.engine import Engine
from tools.cluster.shell import Say, run

_IN_NODE = "/opt/kube-router"
_SCRIPT = Path(__file__).with_suffix(".sh")
_PACKAGES = ("usr-is-merged", "ipset")
_START_SECONDS = 60


@contextmanager
def enforced(cluster: Cluster) -> Iterator[None]:
    """Have NetworkPolicies enforced for the time of the block, by us if the nodes are our own.

    Others enforce them themselves, or nobody does: a cluster given in KUBECONFIG is not changed.
    """
    podnet = ("get", "daemonset/podnet", "-n", "kube-system", "--ignore-not-found", "-o", "name")
    if cluster.engine is None or not cluster.kubectl(*podnet):
        yield
        return
    programs = _programs(cluster.say)
    with ExitStack() as stack:
        for node in kind.nodes(cluster.engine, cluster.name):
            stack.enter_context(_firewall(cluster.engine, cluster.name, node, programs))
        yield


@contextmanager
def _firewall(engine: Engine, cluster: str, node: str, programs: Path) -> Iterator[None]:
    with locked(cache_dir() / "locks" / "firewall"), scratch("firewall") as folder:
        shutil.copytree(programs, folder, dirs_exist_ok=True)
        (folder / "kubeconfig").write_text(kind.kubeconfig_of_nodes(engine, cluster))
        engine.docker("cp", f"{folder}/.", f"{node}:{_IN_NODE}")
    script = ("exec", node, f"{_IN_NODE}/firewall")
    try:
        engine.docker(*script, "start", kind.SERVICE_SUBNET, timeout=_START_SECONDS)
        yield
    finally:
        engine.docker(*script, "stop")


def _programs(say: Say) -> Path:
    """Return the folder with what a node needs: kube-router, and ipset, which no node has."""
    router = binary("kube-router", say)
    debian = root_filesystem("ipset", _PACKAGES, say)

    def fill(place: Path) -> None:
        flat = "--transform=s,.*/,,"
        run(
            [
                "tar",
                "-C",
                place,
                flat,
                "--wildcards",
                "-xf",
                debian,
                "*/sbin/ipset",
                "*/libipset.so.*",
            ]
        )
        shutil.copy2(router, place / "kube-router")
        shutil.copyfile(_SCRIPT, place / "firewall")
        (place / "firewall").chmod(0o755)

    return kept("firewall", "kube-router", digest(str(router), str(debian), _SCRIPT), fill)
