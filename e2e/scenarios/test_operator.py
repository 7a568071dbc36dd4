"""The operator itself: its rights, and its restart while jobs train."""

import pytest

from e2e.install import NAMESPACE, OPERATOR, RELEASE
from e2e.jobs import endless, tasks
from e2e.scenarios.space import Space
from tools.cluster import Cluster, ClusterError, check
from tools.waiting import eventually

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-operator"


def test_the_cluster_serves_services_names_volumes_and_loaded_images(cluster: Cluster) -> None:
    if cluster.given:
        pytest.skip("the cluster of your KUBECONFIG is not ours to check")
    for finding in check.check(cluster):
        assert not finding.error, finding.step


@pytest.mark.parametrize(
    ("verb", "resource", "answer"),
    [
        ("create", "pods", "yes"),
        ("watch", "tftrainingjobs.tftraining.dev", "yes"),
        ("get", "secrets", "no"),
        ("create", "pods --subresource=exec", "no"),
        ("update", "pods", "no"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io", "no"),
        ("list", "namespaces", "no"),
        ("list", "customresourcedefinitions.apiextensions.k8s.io", "no"),
        ("*", "*", "no"),
    ],
)
def test_it_has_the_rights_that_it_needs_and_no_others(
    cluster: Cluster, verb: str, resource: str, answer: str
) -> None:
    try:
        said = cluster.kubectl(
            "auth", "can-i", verb, *resource.split(), "--as", ACCOUNT, "--all-namespaces"
        )
    except ClusterError as error:  # kubectl ends with 1 on a no
        said = str(error)
    assert said.strip().splitlines()[-1].startswith(answer)


@pytest.mark.alone
def test_restarted_while_a_job_trains_it_touches_nothing(space: Space, cluster: Cluster) -> None:
    space.apply(tasks(), endless())
    space.wait_for("Running")
    eventually(lambda: space.status().get("progress"), "a first report", 60)
    before = space.pods()
    operator = cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "name").split()
    cluster.kubectl("-n", NAMESPACE, "delete", "--grace-period=0", "--force", *operator)
    cluster.kubectl("-n", NAMESPACE, "rollout", "status", OPERATOR, "--timeout=120s")
    step = space.status()["progress"]["step"]
    eventually(lambda: space.status()["progress"]["step"] > step, "progress is reported again", 60)
    assert space.pods() == before
    assert space.status()["restarts"] == 0
    assert space.condition("Running")["status"] == "True"
