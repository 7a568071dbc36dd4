"""Who leads is told by a fresh lease; what all who use a cluster feel is done to our own alone.

A leader that ended in an outage leaves its name in a lease.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from e2e.faults import NoNodeError
from e2e.platform_faults import (
    controllers_lead,
    no_room,
    operator_leads,
    tolerated,
    without_dns,
)
from e2e.slots import slots
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


@pytest.mark.parametrize(
    "fault",
    [no_room, without_dns, partial(tolerated, taint="example.com/spot"), partial(slots, count=1)],
)
def test_what_all_who_use_a_cluster_would_feel_is_not_done_to_a_given_one(
    fault: Callable[[Cluster], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "kubectl", lambda *_: pytest.fail("the cluster is asked"))

    with (
        pytest.raises(NoNodeError, match="the cluster of your KUBECONFIG may have other users"),
        fault(Cluster("given", Path("kubeconfig"), given=True)),
    ):
        pytest.fail("begun")
