"""The version before comes from the history, or it is said what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from e2e.install import ROOT
from e2e.previous import extract
from tools.cluster.shell import ClusterError, run

if TYPE_CHECKING:
    from pathlib import Path


def commit(repository: Path, text: str) -> str:
    (repository / "file").write_text(text)
    run(["git", "-C", repository, "add", "file"])
    run(
        [
            *("git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x"),
            *("commit", "--quiet", "--message", text),
        ]
    )
    return run(["git", "-C", repository, "rev-parse", "HEAD"]).strip()


def test_a_shallow_checkout_fails_and_says_how_to_get_the_history(tmp_path: Path) -> None:
    origin, shallow = tmp_path / "origin", tmp_path / "shallow"
    run(["git", "init", "--quiet", origin])
    before = commit(origin, "before")
    commit(origin, "after")
    (tmp_path / "out").mkdir()
    extract(origin, before, ["file"], tmp_path / "out")
    assert (tmp_path / "out/file").read_text() == "before"

    run(["git", "clone", "--quiet", "--depth=1", origin.as_uri(), shallow])
    with pytest.raises(ClusterError, match="git fetch --unshallow"):
        extract(shallow, before, ["file"], tmp_path / "out")


@pytest.mark.parametrize("name", ["ci.yaml", "nightly.yaml"])
def test_ci_fetches_the_history(name: str) -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())["jobs"].values()
    checkouts = [
        step
        for job in jobs
        for step in job["steps"]
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert checkouts
    assert all(step["with"].get("fetch-depth") == 0 for step in checkouts)
