"""What is known of schedulers' groups, and of Kueue's Workloads, as their APIs come and go."""

from __future__ import annotations

from typing import Any, cast

from tftraining_operator.api.scheduling import Gang
from tftraining_operator.controller.groups import Groups
from tftraining_operator.controller.kubernetes_api import KubernetesApi, Listing
from tftraining_operator.controller.workloads import Availability, Workloads
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind, Store

KEY = JobKey("default", "mnist")


class Cluster:
    """A cluster that serves some kinds of groups, each with one object."""

    def __init__(self) -> None:
        self.served: set[Kind] = set()

    async def list(self, kind: Kind, namespace: str | None) -> Listing:
        assert namespace is None
        if kind not in self.served:
            raise errors.NotFoundError("no such resource", status=404)
        metadata: dict[str, Any] = {
            "namespace": KEY.namespace,
            "name": "mnist-0",
            "uid": f"uid-{kind}",
            "resourceVersion": "500",
            "labels": {"tftraining.dev/job": KEY.name},
        }
        return Listing([{"kind": "PodGroup", "metadata": metadata}], "510")

    def version(self, _kind: Kind) -> str:
        return "v1"


async def test_an_api_that_goes_takes_its_groups_along_and_is_no_restore_of_etcd() -> None:
    cluster, store, looked = Cluster(), Store(), list[JobKey]()
    groups = Groups(cast("KubernetesApi", cluster), store, [None], looked.append)
    cluster.served = {Kind.IN_TREE_GROUP, Kind.COSCHEDULING_GROUP}
    await groups.list()
    assert dict(groups.offer(KEY.namespace).versions) == {Gang.IN_TREE: "v1", Gang.POD_GROUP: "v1"}
    assert store.children(Kind.COSCHEDULING_GROUP, KEY)

    looked.clear()
    cluster.served = {Kind.IN_TREE_GROUP}
    await groups.list()
    assert dict(groups.offer(KEY.namespace).versions) == {Gang.IN_TREE: "v1"}
    assert not store.children(Kind.COSCHEDULING_GROUP, KEY)
    assert store.children(Kind.IN_TREE_GROUP, KEY)
    assert looked == [KEY]
    assert not store.went_back


async def test_kueue_that_is_uninstalled_takes_its_workloads_along_and_is_no_restore_of_etcd() -> (
    None
):
    cluster, store, looked = Cluster(), Store(), list[JobKey]()
    workloads = Workloads(cast("KubernetesApi", cluster), store, None, looked.append, lambda: None)
    cluster.served = {Kind.WORKLOAD}
    assert await workloads.list() == "510"
    assert store.children(Kind.WORKLOAD, KEY)

    looked.clear()
    cluster.served = set()
    assert await workloads.list() is None
    assert workloads.availability == Availability()
    assert not store.children(Kind.WORKLOAD, KEY)
    assert looked == [KEY]
    assert not store.went_back
