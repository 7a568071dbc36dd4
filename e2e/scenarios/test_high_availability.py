"""Two operator pods: whatever becomes of the one that leads, jobs train on and nothing restarts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.faults import Pod
from e2e.install import NAMESPACE, OPERATOR, OPERATOR_PODS
from e2e.jobs import endless, tasks
from e2e.platform_faults import kill_for_good, lease_holder
from e2e.prometheus import Prometheus
from e2e.scenarios.space import Space, new_space
from tools.cluster import Cluster
from tools.waiting import eventually

pytestmark = pytest.mark.alone

LEASE_SECONDS = 15
LOST = 75
"""Exit code of an operator that has lost its lease."""


@pytest.fixture
def leader(cluster: Cluster) -> Pod:
    """The pod that leads; the other stands by."""
    cluster.kubectl("-n", NAMESPACE, "rollout", "status", OPERATOR, "--timeout=120s")
    name = eventually(lambda: lease_holder(cluster), "a leader", 60)
    return Pod(cluster, NAMESPACE, name, container="operator")


@pytest.fixture(scope="module")
def training(cluster: Cluster) -> Iterator[Space]:
    """A job that trains through all that happens to the operator."""
    with new_space(cluster) as space:
        space.apply(tasks(), endless())
        space.wait_for("Running")
        eventually(lambda: space.status().get("progress"), "a first report", 60)
        yield space


def trains_on(space: Space, before: dict[str, str]) -> None:
    step = space.status()["progress"]["step"]
    eventually(lambda: space.status()["progress"]["step"] > step, "progress is reported again", 60)
    assert space.pods() == before
    assert space.status()["restarts"] == 0
    assert space.condition("Running")["status"] == "True"


def follows(cluster: Cluster, leader: Pod, seconds: float) -> None:
    """Wait until the other leads."""
    eventually(lambda: lease_holder(cluster) not in ("", leader.name), "the other leads", seconds)


def test_a_leader_that_is_asked_to_end_is_followed_at_once(
    training: Space, cluster: Cluster, leader: Pod
) -> None:
    before = training.pods()
    leader.delete()
    follows(cluster, leader, 10)
    trains_on(training, before)


def test_a_leader_that_is_killed_is_followed_after_its_lease_and_prometheus_alerts_until_then(
    training: Space, cluster: Cluster, leader: Pod, prometheus_server: Prometheus
) -> None:
    alert = "TFTrainingOperatorNoLeader"
    before = training.pods()
    # A Prometheus that has just started finds its targets some seconds later.
    leads = "tftraining_operator_leader"
    eventually(lambda: len(prometheus_server.query(leads)) == 2, "both replicas are scraped", 30)
    assert not prometheus_server.firing(alert)
    kill_for_good(leader)
    follows(cluster, leader, LEASE_SECONDS + 10)
    assert prometheus_server.has_fired(alert, f'namespace="{NAMESPACE}"')
    eventually(lambda: not prometheus_server.firing(alert), "the alert is resolved", 30)
    trains_on(training, before)


def test_a_leader_that_hangs_is_followed_and_ends_when_it_goes_on(
    training: Space, cluster: Cluster, leader: Pod
) -> None:
    before = training.pods()
    leader.freeze()
    try:
        follows(cluster, leader, LEASE_SECONDS + 10)
    finally:
        leader.thaw()
    ended = eventually(lambda: last_end(leader), "it has ended", 20)
    assert ended["exitCode"] == LOST
    trains_on(training, before)
    assert lease_holder(cluster) != leader.name


def last_end(pod: Pod) -> dict[str, Any]:
    """Read how the pod's container ended before its present life, {} if it did not."""
    status: dict[str, Any] = pod.read()["status"]["containerStatuses"][0]
    found: dict[str, Any] = status["lastState"].get("terminated") or status["state"].get(
        "terminated", {}
    )
    return found


def test_the_leader_and_the_standby_are_ready(cluster: Cluster, leader: Pod) -> None:
    """So an upgrade can wait for either."""
    listed = cluster.kubectl("-n", NAMESPACE, "get", "pods", *OPERATOR_PODS, "-o", "json")
    pods = {
        pod["metadata"]["name"]: {c["type"]: c["status"] for c in pod["status"]["conditions"]}
        for pod in json.loads(listed)["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }
    assert len(pods) == 2
    assert leader.name in pods
    assert {conditions["Ready"] for conditions in pods.values()} == {"True"}
