"""Proves that a cluster does what pods need; nodes that are Ready prove little.

Kubernetes' own pods are up before a service rule that can't be loaded, or a volume that only root
may write to, shows. So a fresh service, a fresh volume and a loaded image are tried.
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
from tools.cluster.machine import look
from tools.cluster.shell import ClusterError

IMAGE = "tftraining/probe:1"
MANIFEST = Path(__file__).with_name("check.yaml")
JOBS = ("dns", "service", "volume")

_NAMESPACE = "cluster-check"
_SECONDS = 90


@dataclass(frozen=True, slots=True)
class Finding:
    """How one step of the check went."""

    step: str
    seconds: float
    trouble: str = ""


def check(cluster: Cluster) -> Iterator[Finding]:
    """Try the cluster, one finding after the other, and leave nothing of it behind."""
    clear = partial(
        cluster.kubectl, "delete", "namespace", _NAMESPACE, "--ignore-not-found", "--timeout=90s"
    )
    clear()
    steps: list[tuple[str, Callable[[], object]]] = [
        ("an image is loaded", partial(_load_probe, cluster)),
        ("manifests are applied", partial(cluster.kubectl, "apply", "--filename", MANIFEST)),
        *((f"the job {name} succeeds", partial(_job, cluster, name)) for name in JOBS),
        ("all of it is deleted", clear),
    ]
    for step, act in steps:
        start = time.monotonic()
        trouble = ""
        try:
            act()
        except ClusterError as error:
            trouble = str(error)
        yield Finding(step, time.monotonic() - start, trouble)


def _load_probe(cluster: Cluster) -> None:
    if cluster.engine is None:
        raise ClusterError("only a cluster of our own can be checked, because images are loaded")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        root.mkdir()
        shutil.copy2(binary("probe"), root / "probe")
        tar = Path(name) / "probe.tar"
        architecture = look().architecture
        archive.write(tar, IMAGE, root, entrypoint=["/probe"], architecture=architecture)
        cluster.engine.docker("load", "--input", tar)
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
