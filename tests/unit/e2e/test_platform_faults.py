"""Who leads is told by a fresh lease: a leader that ended in an outage leaves its name in one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.platform_faults import controllers_lead, operator_leads
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


@pytest.mark.parametrize(
    ("ages", "lead"), [((-1, -2), True), ((-1, 1), False), ((-1,), False), ((), False)]
)
def test_scheduler_and_controllers_must_both_lead(
    ages: tuple[int, ...], *, lead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [f"{SINCE - timedelta(seconds=age):%Y-%m-%dT%H:%M:%S.%fZ}" for age in ages]
    monkeypatch.setattr(Cluster, "kubectl", lambda *_: " ".join(said))

    assert controllers_lead(Cluster("name", Path("kubeconfig")), SINCE) is lead
