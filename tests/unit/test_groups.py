"""What is known of schedulers' groups, and of Kueue's Workloads, as their APIs come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.controller.groups import Groups
from tftraining_operator.controller.kubernetes_api import KubernetesApi, Listing
from tftraining_operator.controller.workloads import Workloads
from tftraining_operator.core.schedulers.offer import Availability
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind, Store

from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from tests.unit.virtual_time import VirtualLoop

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


class Busy(Cluster):
    """It does not answer the first so many requests for a kind of groups."""

    def __init__(self, kind: Kind, times: int) -> None:
        super().__init__()
        self.served = {Kind.IN_TREE_GROUP, Kind.COSCHEDULING_GROUP}
        self.busy = kind
        self.times = times

    async def list(self, kind: Kind, namespace: str | None) -> Listing:
        if kind is self.busy and self.times:
            self.times -= 1
            raise errors.TransientError("500: etcdserver: leader changed", status=500)
        return await super().list(kind, namespace)


@pytest.mark.parametrize(
    ("kind", "times", "known", "took"),
    [
        pytest.param(Kind.IN_TREE_GROUP, 3, True, 3, id="Kubernetes' own answer a little later"),
        pytest.param(Kind.IN_TREE_GROUP, 1000, False, 10, id="they never answer"),
        pytest.param(Kind.COSCHEDULING_GROUP, 3, True, 0, id="others are not waited for"),
    ],
)
def test_a_job_that_names_no_gang_does_not_start_before_it_is_known_if_it_can_have_one(
    kind: Kind, times: int, *, known: bool, took: float
) -> None:
    async def scene(loop: VirtualLoop) -> None:
        cluster = Busy(kind, times)
        groups = Groups(cast("KubernetesApi", cluster), Store(), [None], lambda _key: None)
        await groups.list()
        assert (Gang.IN_TREE in groups.offer(KEY.namespace).versions) is known
        assert loop.time() == took

    in_virtual_time(scene)


async def test_an_api_that_does_not_answer_is_not_said_to_be_missing() -> None:
    cluster = Busy(Kind.COSCHEDULING_GROUP, 1)
    groups = Groups(cast("KubernetesApi", cluster), Store(), [None], lambda _key: None)
    await groups.list()
    assert "cannot list podgroups.v1alpha1.scheduling.x-k8s.io at present" in (
        groups.offer(KEY.namespace).problem(Gang.POD_GROUP)
    )
    await groups.list()
    assert Gang.POD_GROUP in groups.offer(KEY.namespace).versions


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
    assert workloads.availability is Availability.MISSING
    assert not store.children(Kind.WORKLOAD, KEY)
    assert looked == [KEY]
    assert not store.went_back
