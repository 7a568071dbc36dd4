"""The version before this one: its chart and its operator's image, rolled out and back by Helm."""

import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.install import CHART, ROOT, install
from tools.cluster import Cluster, ClusterError
from tools.cluster.images import build_operator_from
from tools.cluster.shell import Say, run, succeeds

COMMIT = "be22b54350ea09d12aa2fe7166298eded3a341bd"
"""The last commit of the version before."""

_TAG = f"before-{COMMIT[:12]}"
_CHART = CHART.relative_to(ROOT)


class NoHistoryError(ClusterError):
    """The history of this checkout does not reach back to the version before."""


@dataclass(frozen=True, slots=True)
class Version:
    """An operator to roll out."""

    chart: Path
    tag: str


@contextmanager
def previous_version(cluster: Cluster, say: Say) -> Iterator[Version]:
    """Build the previous version out of git's history and give its image to the nodes.

    Raises NoHistoryError where the history does not reach back to it.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = ("operator", "requirements/operator.lock", str(_CHART))
        extract(ROOT, COMMIT, paths, folder)
        image = build_operator_from(folder, _TAG, say)
        say(f"loading {image}")
        cluster.load(image)
        yield Version(folder / _CHART, _TAG)


def extract(repository: Path, commit: str, paths: Sequence[str], folder: Path) -> None:
    """Write files of a commit into a folder.

    Raises NoHistoryError, with what to do, where the history does not reach back to it.
    """
    if not succeeds(["git", "-C", repository, "cat-file", "-e", f"{commit}^{{commit}}"]):
        raise NoHistoryError(
            f"the history of this checkout does not reach back to {commit[:12]}, from which the "
            "version before is built: run `git fetch --unshallow` (in CI: fetch-depth: 0)"
        )
    tar = folder / "source.tar"
    run(["git", "-C", repository, "archive", "--output", tar, commit, *paths])
    with tarfile.open(tar) as source:
        source.extractall(folder, filter="data")


@contextmanager
def exchanged(cluster: Cluster, other: Version) -> Iterator[None]:
    """Have another version's CRD, rights and operator; they are as before afterwards."""
    try:
        install(cluster, f"image.tag={other.tag}", chart=other.chart)
        yield
    finally:
        install(cluster)
