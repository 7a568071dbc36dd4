"""Who leads is told by a fresh lease: a leader that ended in an outage leaves its name in one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.platform_faults import operator_leads
from tools.cluster import Cluster

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("age", "leads"), [(timedelta(seconds=1), False), (timedelta(seconds=-1), True), (None, False)]
)
def test_only_who_renewed_its_lease_leads(
    age: timedelta | None, *, leads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"{SINCE - age:%Y-%m-%dT%H:%M:%S.%fZ}" if age is not None else ""
    monkeypatch.setattr(Cluster, "kubectl", lambda *_: said)

    assert operator_leads(Cluster("name", Path("kubeconfig")), SINCE) is leads
