"""What `tftj doctor` says of a cluster without an operator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tftraining.cli.checks import checks

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


class Sharded(Empty):
    """A cluster with an operator of three shards, of which the last one has no leader."""

    namespace = "default"
    held = ("x-operator", "x-operator-1")

    def read(self, path: str) -> dict[str, Any] | None:
        if "/deployments" in path:
            variable = {"name": "TFTRAINING_SHARDS", "value": "3"}
            template = {"spec": {"containers": [{"name": "operator", "env": [variable]}]}}
            metadata = {"name": "x-operator", "namespace": "system"}
            return {"items": [{"metadata": metadata, "spec": {"template": template}}]}
        if "/leases/" in path:
            now = NOW.isoformat()
            spec = {"holderIdentity": "a-pod", "acquireTime": now, "renewTime": now}
            return {"spec": spec} if path.rpartition("/")[2] in self.held else None
        return super().read(path) or {}

    def may(self, _verb: str, _group: str, _resource: str) -> bool:
        return True


def test_a_shard_without_a_leader_is_missing() -> None:
    found = [each for each in checks(cast("Cluster", Sharded()), NOW) if "operator" in each.text]
    assert [each.ok for each in found] == [True, True, False]
    assert found[0].text.startswith("shard 0 of the operator runs in namespace system (a-pod leads")
    assert found[2].text.startswith("shard 2 of the operator in namespace system does not run")
