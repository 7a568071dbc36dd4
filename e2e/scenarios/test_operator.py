"""The operator itself: its rights, its restart while jobs train, its upgrade and removal."""

import json

import pytest

from e2e.install import NAMESPACE, RELEASE, helm, install
from e2e.scenarios.space import CLAIM, Space, job
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
    space.kubectl("apply", "-f", "-", text_in=CLAIM)
    checkpoint = {"persistentVolumeClaim": {"claimName": "mnist"}}
    space.apply(job("mnist", "--epochs=1000", checkpoint=checkpoint))
    space.wait_for("Running")
    eventually(lambda: space.status().get("progress"), "a first report", 60)
    before = space.pods()
    operator = cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "name").split()
    cluster.kubectl("-n", NAMESPACE, "delete", "--grace-period=0", "--force", *operator)
    cluster.kubectl(
        *("-n", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}-operator"),
        "--timeout=120s",
    )

    step = space.status()["progress"]["step"]
    eventually(lambda: space.status()["progress"]["step"] > step, "progress is reported again", 60)
    assert space.pods() == before
    assert space.status()["restarts"] == 0
    assert space.condition("Running")["status"] == "True"


def test_a_lost_worker_is_replaced_while_the_training_goes_on(space: Space) -> None:
    space.apply(job("mnist", "--epochs=1000", worker={"replicas": 2}))
    space.wait_for("PodsReady")
    eventually(lambda: (space.status().get("progress") or {}).get("step"), "a first step", 60)
    before = space.pods()
    space.kubectl("delete", "pod", "mnist-worker-1", "--wait=false")
    eventually(
        lambda: space.pods().get("mnist-worker-1") not in (None, before["mnist-worker-1"]),
        "a new worker-1",
        60,
    )
    step = space.status()["progress"]["step"]
    eventually(lambda: space.status()["progress"]["step"] > step, "steps go on", 60)
    space.wait_for("PodsReady")
    after = space.pods()
    assert after.pop("mnist-worker-1") != before.pop("mnist-worker-1")
    assert after == before
    assert space.status()["restarts"] == 0


@pytest.mark.alone
def test_a_helm_upgrade_is_clean(cluster: Cluster, space: Space) -> None:
    space.apply(job("mnist", "--epochs=1000"))
    space.wait_for("Running")
    before = space.pods()
    install(cluster, "log.level=debug")

    release = helm(cluster, "status", RELEASE, "--namespace", NAMESPACE, "--output", "json")
    assert json.loads(release)["info"]["status"] == "deployed"
    assert space.pods() == before
    install(cluster)
