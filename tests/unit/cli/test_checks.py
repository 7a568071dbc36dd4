"""What `tftj doctor` says of a cluster without an operator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

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
