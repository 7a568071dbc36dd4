"""What `tftj doctor` says of a cluster, with and without an operator."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from tftraining.cli.checks import checks
from tftraining.errors import ForbiddenError

from tests.conftest import ROOT

if TYPE_CHECKING:
    from tftraining.cluster.cluster import Cluster


NOW = datetime.now(UTC)


class Empty:
    """A cluster that serves Kubernetes' own API."""

    def read(self, path: str) -> dict[str, Any] | None:
        return {"gitVersion": "v1.36.0"} if path == "/version" else None


def test_the_command_that_installs_the_operator_is_that_of_the_guide() -> None:
    *_, last = checks(cast("Cluster", Empty()), datetime.now(UTC))
    assert not last.ok
    command = last.text.partition("(")[2].removesuffix(")")
    assert command in (ROOT / "docs/guide/install.md").read_text()
    assert "-n tftraining-system --create-namespace" in command


class Installed:
    """A cluster with operators, whose Deployments tell them which namespaces to serve."""

    namespace = "vision"

    def __init__(self, *namespaces: str | None, shards: str = "1") -> None:
        self._deployments = [a_deployment(each, shards) for each in namespaces]
        self.free: set[str] = set()
        """Names of leases that nobody holds."""
        self.refused: set[tuple[str, str]] = set()
        """Verbs and resources that the user has no right to."""
        self.namespaces: dict[str, Any] | Exception | None = {}
        """What is answered about the namespace."""

    def read(self, path: str) -> dict[str, Any] | None:
        if path == "/api/v1/namespaces/vision":
            if isinstance(self.namespaces, Exception):
                raise self.namespaces
            return self.namespaces
        if "/deployments" in path:
            return {"items": self._deployments}
        if path.rpartition("/")[2] in self.free:
            return None
        now = NOW.isoformat()
        return {"spec": {"holderIdentity": "x", "renewTime": now, "acquireTime": now}}

    def may(self, verb: str, _group: str, resource: str) -> bool:
        return (verb, resource) not in self.refused


def a_deployment(namespaces: str | None, shards: str) -> dict[str, Any]:
    env = [{"name": "TFTRAINING_SHARDS", "value": shards}]
    if namespaces is not None:
        env.append({"name": "TFTRAINING_NAMESPACES", "value": namespaces})
    return {
        "metadata": {"name": "operator", "namespace": "tftraining-system"},
        "spec": {"template": {"spec": {"containers": [{"name": "operator", "env": env}]}}},
    }


def missing(*namespaces: str | None) -> list[str]:
    found = checks(cast("Cluster", Installed(*namespaces)), NOW)
    return [check.text for check in found if not check.ok]


def test_a_right_that_restart_needs_is_asked_for() -> None:
    cluster = Installed("")
    cluster.refused.add(("list", "configmaps"))
    (told,) = [each.text for each in checks(cast("Cluster", cluster), NOW) if not each.ok]
    assert told == (
        "in namespace vision you may not list ConfigMaps, to restart jobs that have ended: ask for"
        " the right to list configmaps"
    )


def test_a_shard_without_a_leader_is_missing() -> None:
    cluster = Installed("", shards="3")
    cluster.free.add("operator-2")
    found = [each for each in checks(cast("Cluster", cluster), NOW) if "shard" in each.text]
    assert [each.ok for each in found] == [True, True, False]
    assert found[0].text.startswith(
        "shard 0 of the operator runs in namespace tftraining-system (x leads"
    )
    assert found[2].text.startswith(
        "shard 2 of the operator in namespace tftraining-system does not run"
    )


@pytest.mark.parametrize(
    "namespaces",
    [
        pytest.param([""], id="all"),
        pytest.param([None], id="no word of it, which means all"),
        pytest.param(["text, vision"], id="this one among others"),
        pytest.param(["text", "vision"], id="one of two operators"),
    ],
)
def test_a_namespace_that_an_operator_serves_is_well(namespaces: list[str | None]) -> None:
    assert missing(*namespaces) == []


def test_a_namespace_that_no_operator_serves_is_told() -> None:
    (told,) = missing("text", "speech,text")
    assert told == (
        "no operator serves namespace vision, only speech, text: add it to watchNamespaces of the"
        " chart"
    )


def test_without_an_operator_nothing_is_said_of_the_namespaces_that_it_serves() -> None:
    assert missing() == ["no operator is installed by its chart in any namespace: install it"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            None,
            ["there is no namespace vision: create it, or name another one (-n)"],
            id="it is not there",
        ),
        pytest.param(ForbiddenError("no"), [], id="it may not be read"),
    ],
)
def test_a_namespace_that_does_not_exist_is_told(
    answer: Exception | None, expected: list[str]
) -> None:
    """A user of a cluster may have rights in any namespace, also in one that is mistyped."""
    cluster = Installed("")
    cluster.namespaces = answer
    found = checks(cast("Cluster", cluster), NOW)
    assert [check.text for check in found if not check.ok] == expected


class Elsewhen(Installed):
    """Its operator's clock is another one than that of `tftj`."""

    def __init__(self, seconds: float, *, works: bool) -> None:
        super().__init__("")
        self._renewed, self._works = NOW + timedelta(seconds=seconds), works

    def read(self, path: str) -> dict[str, Any] | None:
        if "/leases/" not in path:
            return super().read(path)
        if self._works:
            self._renewed += timedelta(seconds=2)
        return {"spec": {"holderIdentity": "x", "renewTime": self._renewed.isoformat()}}


@pytest.mark.parametrize("seconds", [-3600, -75, 75, 3600])
def test_an_operator_with_another_clock_works_if_it_renews_its_lease(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    works, silent = (Elsewhen(seconds, works=works) for works in (True, False))
    assert [each.text for each in checks(cast("Cluster", works), NOW) if not each.ok] == []
    assert len(slept) == 1
    (told,) = [each.text for each in checks(cast("Cluster", silent), NOW) if not each.ok]
    assert told.startswith("the operator in namespace tftraining-system is silent")
    assert sum(slept) < 15
