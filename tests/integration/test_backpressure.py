"""A server that refuses, is late or fails: few requests meanwhile, nothing lost, soon as before."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.integration import hardship
from tests.integration.accounts import kubeconfig_of
from tests.integration.hardship import Way, leading
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.apiserver import ApiServer

JOBS = [f"job-{number}" for number in range(8)]
TASKS = ("chief-0", "ps-0", "worker-0", "worker-1")
HARD_SECONDS = 4
RECOVERY_SECONDS = 10
MOST = 100
"""Requests meanwhile. Eight jobs begin with some 110 on an easy way."""

ACCOUNT = "hard-pressed"
RIGHTS = (
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": "default"},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}],
    },
)
FLOW = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": ACCOUNT},
    "spec": {
        "priorityLevelConfiguration": {"name": ACCOUNT},
        "matchingPrecedence": 100,
        "rules": [
            {
                "subjects": [{"kind": "Group", "group": {"name": "system:serviceaccounts"}}],
                "resourceRules": [
                    {
                        "verbs": ["*"],
                        "apiGroups": ["*"],
                        "resources": ["*"],
                        "clusterScope": True,
                        "namespaces": ["*"],
                    }
                ],
            }
        ],
    },
}
LEVEL = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": ACCOUNT},
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 1,
            "lendablePercent": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    },
}


@pytest.fixture(scope="module")
def way(apiserver: ApiServer, crd: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    """The way of an operator that has no privilege which would let it pass before others."""
    assert crd
    folder = tmp_path_factory.mktemp("operator")
    apiserver.apply(*RIGHTS)
    kubeconfig = kubeconfig_of(apiserver, "default", ACCOUNT, folder / "kubeconfig")
    with leading(apiserver, kubeconfig) as found:
        operator = Operator(kubeconfig, folder / "log")
        operator.start()
        yield found
        operator.stop()
    apiserver.kubectl("delete", "clusterrolebinding", ACCOUNT)
    apiserver.kubectl("delete", "serviceaccount", ACCOUNT, "-n", "default")


@contextmanager
def trouble(way: Way, server: ApiServer, kind: str) -> Iterator[None]:
    """Make the way hard for HARD_SECONDS, in which few requests may come."""
    if kind == "fair":
        server.apply(LEVEL, FLOW)
    way.make(getattr(hardship, kind, hardship.easy))
    yield
    time.sleep(HARD_SECONDS)
    asked = way.asked.total()
    way.make(hardship.easy)
    if kind == "fair":
        server.kubectl("delete", "flowschemas,prioritylevelconfigurations", ACCOUNT)
    assert asked <= MOST


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("busy", id="429 with Retry-After"),
        pytest.param("fair", id="the server's own priority and fairness"),
        pytest.param("slow", id="each answer 2 s late"),
        pytest.param("unreliable", id="one request in ten fails"),
    ],
)
def test_jobs_begin_and_end_as_if_nothing_had_been(
    way: Way, apiserver: ApiServer, namespace: str, kind: str
) -> None:
    space = Namespace(apiserver, namespace)

    def hard() -> AbstractContextManager[None]:
        return trouble(way, apiserver, kind)

    with hard():
        items = [manifest(job) for job in JOBS]
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        space.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    wanted = {f"{job}-{task}" for job in JOBS for task in TASKS}
    eventually(lambda: space.pods().keys() == wanted, "all pods of all jobs", RECOVERY_SECONDS)
    space.run(*sorted(wanted, key=lambda name: "-chief-" in name))
    for job in JOBS:
        space.wait_for("PodsReady", name=job)

    with hard():
        for job in JOBS:
            space.end(f"{job}-chief-0", 0)
    kept = {f"{job}-chief-0" for job in JOBS}
    eventually(
        lambda: all(space.status(job).get("state") == "Succeeded" for job in JOBS),
        "all jobs have succeeded",
        RECOVERY_SECONDS,
    )
    eventually(
        lambda: (
            {n for n, p in space.pods().items() if "deletionTimestamp" not in p["metadata"]} == kept
        ),
        "their servers are gone",
        RECOVERY_SECONDS,
    )
    for reason in ("Created", "Succeeded"):
        told = [found for found, _ in space.events() if found == reason]
        assert len(told) == len(JOBS)
