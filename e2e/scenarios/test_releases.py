"""Releases of the chart by Helm: tested, with rights in one namespace, and changed under jobs."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from e2e.demo import say
from e2e.install import (
    CHART,
    NAMESPACE,
    OPERATOR_PODS,
    RELEASE,
    helm,
    install,
    remove_release,
    roll_back,
)
from e2e.previous import NoHistoryError, Version, previous_version
from e2e.scenarios.space import Space, new_space
from e2e.scenarios.upgrade.measuring import upgrading
from e2e.scenarios.upgrade.report import damage
from tools.cluster import Cluster
from tools.waiting import eventually

CLAIM = "lease/tftrainingjobs.tftraining.dev"
"""Names the release that works on the jobs of a namespace."""


def trains_a_small_job(cluster: Cluster, release: str, namespace: str) -> None:
    """Run the chart's own test, which ends with the last state of its job."""
    where = ("--namespace", namespace, "--logs", "--timeout", "240s")
    assert "\nSucceeded: " in helm(cluster, "test", release, *where)


def test_helm_test_trains_a_small_job(cluster: Cluster) -> None:
    trains_a_small_job(cluster, RELEASE, NAMESPACE)


def test_a_release_with_rights_in_one_namespace_alone_trains_there(
    cluster: Cluster, space: Space
) -> None:
    """As docs/guide/install.md has it, beside the release of all other namespaces."""
    with new_space(cluster) as home:
        where = ("--namespace", home.name)
        settings = f"watchNamespaces={{{space.name}}},crds.enabled=false,rbac.aggregate=false"
        wait = ("--wait", "--timeout", "120s")
        helm(cluster, "install", "vision", CHART, *where, *wait, "--set", settings)
        try:
            of_all = ("-l", "app.kubernetes.io/instance=vision", "-o", "name")
            assert not cluster.kubectl("get", "clusterroles,clusterrolebindings", *of_all)
            trains_a_small_job(cluster, "vision", home.name)
            assert space.read(CLAIM)["spec"]["holderIdentity"] == f"{home.name}/vision-operator"
        finally:
            helm(cluster, "uninstall", "vision", *where, "--wait")


@pytest.fixture(scope="session")
def before(cluster: Cluster) -> Iterator[Version]:
    """The version before; made before the scenario's turn comes."""
    if cluster.given:
        pytest.skip("the cluster of your KUBECONFIG lacks the image of the version before")
    with ExitStack() as stack:
        try:
            version = stack.enter_context(previous_version(cluster, say))
        except NoHistoryError as error:
            pytest.skip(str(error))
        yield version


def leave_no_operator(cluster: Cluster) -> None:
    """Remove the release; its pods end after Helm has."""
    remove_release(cluster)
    of_operator = (*OPERATOR_PODS, "-o", "name")
    eventually(
        lambda: not cluster.kubectl("-n", NAMESPACE, "get", "pods", *of_operator),
        "no operator is left",
        60,
    )


@pytest.mark.alone
def test_a_release_is_upgraded_rolled_back_and_removed_while_jobs_train(
    cluster: Cluster, space: Space, before: Version
) -> None:
    remove_release(cluster)
    try:
        install(cluster, f"image.tag={before.tag}", chart=before.chart)
        with upgrading(space) as upgrade:
            upgrade.start()
            changes = [
                upgrade.measure("upgrade", lambda: install(cluster)),
                upgrade.measure("rollback", lambda: roll_back(cluster)),
                upgrade.measure("second upgrade", lambda: install(cluster)),
                upgrade.measure("removal", lambda: leave_no_operator(cluster), operated=False),
                upgrade.measure("return", lambda: install(cluster)),
            ]
    finally:
        install(cluster)
    assert damage(changes) == []
