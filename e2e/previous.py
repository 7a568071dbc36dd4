"""The version before this one: its operator's image and CRD, put into a cluster and taken out."""

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.install import CRD, NAMESPACE, OPERATOR, ROOT
from tools.cluster import Cluster
from tools.cluster.images import build_operator_from
from tools.cluster.shell import Say, run

COMMIT = "be22b54350ea09d12aa2fe7166298eded3a341bd"
"""The last commit of the version before."""

_PATHS = ("operator", "requirements/operator.lock", CRD)


@dataclass(frozen=True, slots=True)
class Version:
    """What makes up the operator in a cluster."""

    image: str
    crd: str


def load_previous(cluster: Cluster, say: Say) -> Version:
    """Build the previous version out of git's history and give its image to the nodes.

    Raises ClusterError where the history does not reach back to it.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(["git", "archive", "--output", folder / "source.tar", COMMIT, *_PATHS], cwd=ROOT)
        with tarfile.open(folder / "source.tar") as source:
            source.extractall(folder, filter="data")
        image = build_operator_from(folder, f"before-{COMMIT[:12]}", say)
        crd = (folder / CRD).read_text()
    say(f"loading {image}")
    cluster.load(image)
    return Version(image, crd)


@contextmanager
def exchanged(cluster: Cluster, other: Version) -> Iterator[None]:
    """Have another version's CRD and operator; both are as before afterwards."""
    path = ("-o", "jsonpath={.spec.template.spec.containers[0].image}")
    image = cluster.kubectl("-n", NAMESPACE, "get", OPERATOR, *path)
    present = Version(image, (ROOT / CRD).read_text())
    try:
        _roll_out(cluster, other)
        yield
    finally:
        _roll_out(cluster, present)


def _roll_out(cluster: Cluster, version: Version) -> None:
    forced = ("--server-side", "--force-conflicts")
    cluster.kubectl("apply", *forced, "-f", "-", text_in=version.crd)
    cluster.kubectl("-n", NAMESPACE, "set", "image", OPERATOR, f"operator={version.image}")
    cluster.kubectl("-n", NAMESPACE, "rollout", "status", OPERATOR, "--timeout=120s")
