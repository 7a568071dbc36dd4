"""A KUBECONFIG counts as given unless it is that of a kind cluster of ours."""

from pathlib import Path

import pytest

from tools.cluster.cluster import given_kubeconfig
from tools.cluster.shell import NoClusterError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path / "cache"


def test_without_the_variable_no_kubeconfig_is_given() -> None:
    assert given_kubeconfig() is None


def test_a_users_file_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.touch()
    monkeypatch.setenv("KUBECONFIG", str(path))

    assert given_kubeconfig() == path


def test_the_kubeconfig_of_our_own_cluster_is_not_given(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cache / "clusters" / "name" / "kubeconfig"))

    assert given_kubeconfig() is None


@pytest.mark.parametrize("named", ["nothing", "config:{0}/config"])
def test_what_is_not_one_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (tmp_path / "config").touch()
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/{named.format(tmp_path)}")

    with pytest.raises(NoClusterError, match="KUBECONFIG must name one file"):
        given_kubeconfig()
