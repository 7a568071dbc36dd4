"""A cluster and an engine of ours go, also where a part of that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.cluster import ClusterError, cluster, engine
from tools.cluster.cluster import down
from tools.cluster.engine import Engine
from tools.cluster.machine import look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said when our engine is stopped."""
    said: list[str] = []

    def stop(say: Callable[[str], None]) -> list[str]:
        say("stopping")
        said.append("stopped")
        return ["links: docker0"]

    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(engine, "used", lambda: True)
    monkeypatch.setattr(engine, "stop", stop)
    return said


def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """Have an engine of ours whose client is this script."""
    client = tmp_path / "bin/docker"
    client.parent.mkdir()
    client.write_text(f"#!/bin/sh\n{script}\n")
    client.chmod(0o755)
    env = {"PATH": f"{client.parent}:/usr/bin:/bin"}
    monkeypatch.setattr(engine, "engine", lambda _: Engine(env, ours=True, machine=look()))


def test_the_engine_ends_with_its_last_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stopped: list[str]
) -> None:
    use(monkeypatch, tmp_path, "true")

    assert down("mine", say=lambda _: None) == ["links: docker0"]
    assert stopped == ["stopped"]


@pytest.mark.parametrize(("others", "ends"), [([], ["stopped"]), (["other"], [])])
def test_without_a_client_that_works_the_engine_ends_unless_it_has_another_cluster(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stopped: list[str],
    others: list[str],
    ends: list[str],
) -> None:
    use(monkeypatch, tmp_path, "exit 1")
    for name in ["mine", *others]:
        (tmp_path / "clusters" / name).mkdir(parents=True)

    with pytest.raises(ClusterError, match="docker"):
        down("mine", say=lambda _: None)

    assert stopped == ends


def test_an_engine_that_does_not_start_to_clean_up_is_stopped(
    monkeypatch: pytest.MonkeyPatch, stopped: list[str]
) -> None:
    def start(_: object) -> Engine:
        raise ClusterError("the Docker engine did not start")

    monkeypatch.setattr(cluster.engines, "engine", start)

    with pytest.raises(ClusterError, match="did not start"):
        down("mine", say=lambda _: None)

    assert stopped == ["stopped"]


@pytest.mark.parametrize("error", [BrokenPipeError(), SystemExit(1)])
def test_all_goes_also_where_nobody_reads_of_it_any_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stopped: list[str], error: BaseException
) -> None:
    use(monkeypatch, tmp_path, "true")

    def say(_: str) -> None:
        raise error

    down("mine", say=say)

    assert stopped == ["stopped"]
