"""Only an incomplete cluster of ours is deleted to make a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.cluster import ClusterError, NoClusterError, cluster, engine, kind, obtain
from tools.cluster.cluster import remove_remains, up
from tools.cluster.engine import Engine
from tools.cluster.machine import look

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a complete cluster of ours."""
    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    made = tmp_path / "clusters/mine"
    made.mkdir(parents=True)
    for name in ("kind.yaml", "ready"):
        (made / name).touch()
    return made


@pytest.fixture
def done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is created and deleted, on an engine of the user's that has a cluster."""
    theirs = Engine({}, ours=False, machine=look())
    calls, answers = list[str](), folder.parent / "answers"
    monkeypatch.setattr(engine, "engine", lambda _: theirs)
    monkeypatch.setattr(engine, "running", lambda: theirs)
    monkeypatch.setattr(engine, "used", lambda: True)
    monkeypatch.setattr(engine, "pid", lambda: 1)
    monkeypatch.setattr(kind, "clusters", lambda _: ["mine"])
    monkeypatch.setattr(kind, "nodes", lambda *_: ["mine-control-plane"])
    monkeypatch.setattr(kind, "delete", lambda *_: calls.append("delete"))
    monkeypatch.setattr(kind, "create", lambda *_, **__: calls.append("create"))
    monkeypatch.setattr(cluster, "node_image", lambda *_: "image")
    monkeypatch.setattr(cluster, "_wait", lambda _: None)
    monkeypatch.setattr(cluster, "_answers", lambda _: answers.exists())
    monkeypatch.setattr(cluster.time, "sleep", lambda _: answers.touch())
    return calls


@pytest.mark.parametrize("by", ["up", "obtain", "remove_remains"])
def test_a_complete_cluster_that_answers_late_is_kept(done: list[str], by: str) -> None:
    if by == "up":
        up("mine")
    elif by == "obtain":
        with obtain("mine"):
            pass
    else:
        remove_remains("mine")

    assert done == []


def test_one_that_never_answers_is_kept_and_the_error_says_how_to_delete_it(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_LATE_SECONDS", 0.0)
    monkeypatch.setattr(cluster, "_answers", lambda _: False)

    with pytest.raises(ClusterError, match="make cluster-down"), obtain("mine"):
        pytest.fail("it answers")

    assert done == []


@pytest.mark.parametrize("lacks", ["ready", "nodes"])
def test_an_incomplete_cluster_and_one_whose_nodes_stopped_is_made_again(
    folder: Path, done: list[str], monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "nodes":
        monkeypatch.setattr(kind, "nodes", lambda *_: [])
    else:
        (folder / "ready").unlink()

    up("mine")

    assert done == ["delete", "create"]


def test_a_cluster_of_somebody_else_is_neither_used_nor_deleted(
    folder: Path, done: list[str]
) -> None:
    for file in folder.iterdir():
        file.unlink()

    with pytest.raises(NoClusterError, match="kind delete cluster --name mine"), obtain("mine"):
        pytest.fail("it is used")

    assert done == []
