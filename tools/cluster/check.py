"""Tests that a cluster offers what pods need (`python -m tools.cluster check`).

Ready nodes are not enough: broken service rules, or volumes that only root can write to, show only
when they are used. So the check uses a new service, a new volume and a loaded image.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.cluster import archive
from tools.cluster.binaries import binary
from tools.cluster.cluster import Cluster
from tools.cluster.engine import Engine
from tools.cluster.machine import look
from tools.cluster.shell import ClusterError

IMAGE = "tftraining/probe:1"
MANIFEST = Path(__file__).with_name("check.yaml")
JOBS = ("dns", "service", "volume")

_NAMESPACE = "cluster-check"
_SECONDS = 90


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one step of the check."""

    step: str
    seconds: float
    error: str = ""


def check(cluster: Cluster) -> Iterator[Finding]:
    """Run the steps one by one, yield each result, and delete what they created.

    In a given cluster none is run: the user may have what they would delete.
    """
    engine = cluster.engine
    if engine is None:
        why = "only a kind cluster can be checked, because the check loads an image"
        yield Finding("load an image", 0.0, why)
        return
    clear = partial(
        cluster.kubectl, "delete", "namespace", _NAMESPACE, "--ignore-not-found", "--timeout=90s"
    )
    clear()
    steps: list[tuple[str, Callable[[], object]]] = [
        ("load an image", partial(_load_probe, cluster, engine)),
        ("apply the manifests", partial(cluster.kubectl, "apply", "--filename", MANIFEST)),
        *((f"wait for the job {name}", partial(_job, cluster, name)) for name in JOBS),
        ("delete all of it", clear),
    ]
    for step, act in steps:
        start = time.monotonic()
        failure = ""
        try:
            act()
        except ClusterError as error:
            failure = str(error)
        yield Finding(step, time.monotonic() - start, failure)


def _load_probe(cluster: Cluster, engine: Engine) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        root.mkdir()
        shutil.copy2(binary("probe"), root / "probe")
        tar = Path(name) / "probe.tar"
        architecture = look().architecture
        archive.write(tar, IMAGE, root, entrypoint=["/probe"], architecture=architecture)
        engine.docker("load", "--input", tar)
    cluster.load(IMAGE)


def _job(cluster: Cluster, name: str) -> None:
    job = f"job/{name}"
    counts = "jsonpath={.status.succeeded} {.status.failed}"
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        succeeded, failed = cluster.kubectl(
            "get", job, "--namespace", _NAMESPACE, "--output", counts
        ).split(" ")
        if succeeded:
            return
        if failed:
            raise ClusterError(cluster.kubectl("logs", job, "--namespace", _NAMESPACE))
        time.sleep(0.2)
    raise ClusterError(cluster.kubectl("get", "events", "--namespace", _NAMESPACE))
