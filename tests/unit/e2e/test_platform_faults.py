"""Who leads is told by a fresh lease; what all who use a cluster feel is done to our own alone.

A leader that ended in an outage leaves its name in a lease.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from e2e import platform_faults, slow_api
from e2e.faults import NoNodeError, Pod
from e2e.platform_faults import (
    controllers_lead,
    no_room,
    operator_leads,
    progress_unreachable,
    tolerated,
    without_apiserver,
    without_dns,
)
from e2e.slots import slots
from tools.cluster import Cluster, ClusterError

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("age", "ready", "leads"),
    [
        pytest.param(timedelta(seconds=1), "true", False, id="of a leader that has ended"),
        pytest.param(timedelta(seconds=-1), "true", True, id="a leader that has listed all"),
        pytest.param(timedelta(seconds=-1), "false", False, id="a leader that lists"),
        pytest.param(timedelta(seconds=-1), "", False, id="a leader whose pod is gone"),
        pytest.param(None, "true", False, id="no lease"),
    ],
)
def test_only_who_renewed_its_lease_and_has_listed_all_leads(
    age: timedelta | None, ready: str, *, leads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = f"{SINCE - age:%Y-%m-%dT%H:%M:%S.%fZ}" if age is not None else ""

    def kubectl(_cluster: Cluster, *arguments: str) -> str:
        if "pod" in arguments:
            return ready
        return "operator-0_1" if "holderIdentity" in arguments[-1] else renewed

    monkeypatch.setattr(Cluster, "kubectl", kubectl)

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


@pytest.fixture
def own() -> Cluster:
    return Cluster("name", Path("kubeconfig"))


@pytest.mark.parametrize(
    "fault", [progress_unreachable, partial(slow_api.slow_api, seconds=1.0, failing=0.1)]
)
def test_what_was_done_to_one_pod_is_undone_if_another_one_is_gone(
    fault: Callable[[Cluster], AbstractContextManager[None]],
    own: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = dict[str, list[str]]()

    def in_network(pod: Pod, script: str) -> None:
        if pod.name == "b":
            raise ClusterError("b is gone")
        told.setdefault(pod.name, []).append(script)

    monkeypatch.setattr(Cluster, "kubectl", lambda *_, **__: "")
    monkeypatch.setattr(Pod, "in_network", in_network)
    pods = [Pod(own, "system", name) for name in ("a", "b")]
    for module in (platform_faults, slow_api):
        monkeypatch.setattr(module, "operator_pods", lambda _: pods)

    with pytest.raises(ClusterError, match="b is gone"), fault(own):
        pytest.fail("begun")
    added, removed = told["a"]
    assert removed == added.replace(" -A ", " -D ")


@pytest.mark.parametrize(
    ("fault", "last", "undone"),
    [
        (no_room, "cordon node/b", "uncordon node/a"),
        (without_dns, "--replicas=0", "--replicas=node/a node/b"),
    ],
)
def test_a_fault_that_fails_half_way_is_undone(
    fault: Callable[[Cluster], AbstractContextManager[None]],
    last: str,
    undone: str,
    own: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()

    def kubectl(_: Cluster, *arguments: str) -> str:
        asked.append(" ".join(arguments))
        if asked[-1].endswith(last) and "uncordon" not in asked[-1]:
            raise ClusterError("no answer")
        return "node/a node/b"

    monkeypatch.setattr(Cluster, "kubectl", kubectl)

    with pytest.raises(ClusterError, match="no answer"), fault(own):
        pytest.fail("begun")
    assert any(words.endswith(undone) for words in asked)


def test_an_api_server_that_could_not_be_stopped_has_its_manifest(
    own: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = list[str]()

    def in_node(_cluster: Cluster, _node: str, script: str, _fault: str) -> str:
        scripts.append(script)
        if "pkill" in script:
            raise ClusterError("no process found")
        return ""

    monkeypatch.setattr(platform_faults, "control_plane", lambda _: "node-1")
    monkeypatch.setattr(platform_faults, "in_node", in_node)

    with pytest.raises(ClusterError, match="no process found"), without_apiserver(own):
        pytest.fail("begun")
    assert "mv /etc/kubernetes/kube-apiserver.yaml" in scripts[-1]


def test_a_node_keeps_no_slots_that_its_kubelet_did_not_post(
    own: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = list[str]()

    def kubectl(_: Cluster, *arguments: str) -> str:
        changes.extend(word for word in arguments if '"op"' in word)
        return "node/a" if "name" in arguments else '{"status": {"allocatable": {}}}'

    monkeypatch.setattr(Cluster, "kubectl", kubectl)
    monkeypatch.setattr("e2e.slots._POSTED_SECONDS", 0)

    with pytest.raises(AssertionError, match="offers 1"), slots(own, 1):
        pytest.fail("begun")
    assert '"remove"' in changes[-1]
