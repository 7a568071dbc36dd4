"""What a check makes and deletes, it makes in a cluster of ours alone."""

from pathlib import Path

import pytest

from tools.cluster import Cluster
from tools.cluster.check import check


def test_a_given_cluster_is_refused_and_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(Cluster, "kubectl", lambda _, *words, **__: asked.append(words) or "")

    (finding,) = check(Cluster("given", Path("kubeconfig"), given=True))

    assert "only a kind cluster can be checked" in finding.error
    assert asked == []
