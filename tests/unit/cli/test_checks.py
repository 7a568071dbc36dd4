"""What `tftj doctor` says of a cluster, with and without an operator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
from tftraining.cli.checks import checks

from tests.conftest import ROOT

if TYPE_CHECKING:
    from tftraining.cluster.cluster import Cluster


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


NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Installed:
    """A cluster with one operator, which the Deployment tells which namespaces to serve."""

    namespace = "vision"

    def __init__(self, *namespaces: str | None) -> None:
        self._deployments = [a_deployment(each) for each in namespaces]

    def read(self, path: str) -> dict[str, Any] | None:
        if "/deployments" in path:
            return {"items": self._deployments}
        now = NOW.isoformat()
        return {"spec": {"holderIdentity": "x", "renewTime": now, "acquireTime": now}}

    def may(self, _verb: str, _group: str, _resource: str) -> bool:
        return True


def a_deployment(namespaces: str | None) -> dict[str, Any]:
    env = [{"name": "TFTRAINING_NAMESPACES", "value": namespaces}] if namespaces is not None else []
    return {
        "metadata": {"name": "operator", "namespace": "tftraining-system"},
        "spec": {"template": {"spec": {"containers": [{"name": "operator", "env": env}]}}},
    }


def missing(*namespaces: str | None) -> list[str]:
    found = checks(cast("Cluster", Installed(*namespaces)), NOW)
    return [check.text for check in found if not check.ok]


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
