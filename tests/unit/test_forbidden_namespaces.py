"""A tenant who deletes the operator's Role, or the namespace, stops nobody else's jobs.

With Roles only, all requests there answer 403 then. Whole processes, in virtual time.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.controller import namespaces
from tftraining_operator.controller.claims import Claims
from tftraining_operator.controller.kubernetes_api import KubernetesApi, Listing, plural
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.controller.runtime import Runtime
from tftraining_operator.controller.settings import Settings
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import GROUPS, JobKey, Kind

from tests.unit.builders import JobBuilder, a_job
from tests.unit.fakes import Clock, FakeCluster
from tests.unit.lease_server import LeaseServer
from tests.unit.test_metrics import counted
from tests.unit.virtual_time import VirtualLoop, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tests.unit.builders import Raw

RED, BLUE = "red", "blue"
AT_ONCE = 15
"""Seconds within which the operator does what a watch tells."""
NOTICED = 400
"""Seconds within which a watch ends and everything is listed: an open watch outlives its Role."""
NOTICED_BY_LEASE = 30
"""Seconds within which a namespace's lease is renewed."""
TAKEN_UP = 60
"""Seconds within which a namespace is worked in that may be read again."""

STATE = "tftraining_operator_namespaces"


def forbidden(what: str, namespace: str | None) -> errors.ForbiddenError:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return errors.ForbiddenError(f'{what} is forbidden: User "us" cannot list {where}', status=403)


@dataclass
class Api:
    """The calls of an operator with Roles, each of which may be gone or lack a kind."""

    cluster: FakeCluster = field(
        default_factory=lambda: FakeCluster(clock=Clock(datetime.now(UTC)))
    )
    leases: LeaseServer = field(default_factory=LeaseServer)
    closed: set[str | None] = field(default_factory=set)
    """Namespaces without a Role; None if the ClusterRole is missing."""
    lacking: set[tuple[str | None, Kind]] = field(default_factory=set)
    """Kinds that a Role lacks."""
    unserved: set[Kind] = field(default_factory=lambda: {*GROUPS.values(), Kind.WORKLOAD})
    refused: list[str] = field(default_factory=list)
    """In which namespaces requests were refused."""

    def check(self, namespace: str | None, kind: Kind | None = None) -> None:
        if namespace in self.closed or (kind is not None and (namespace, kind) in self.lacking):
            self.refused.append(namespace or "")
            raise forbidden(plural(kind) if kind else "leases", namespace)

    async def list(self, kind: Kind, namespace: str | None) -> Listing:
        await asyncio.sleep(0.01)
        self.check(namespace, kind)
        if kind in self.unserved:
            raise errors.NotFoundError("no such resource", status=404)
        items, version = self.cluster.listing(kind)
        return Listing([raw for raw in items if _is_in(raw, namespace)], version)

    async def pages(self, kind: Kind, namespace: str | None) -> AsyncIterator[Listing]:
        yield await self.list(kind, namespace)

    async def list_unlabelled_pods(self, namespace: str | None) -> Listing:
        self.check(namespace, Kind.POD)
        return Listing([], "1")

    async def watch(
        self, kind: Kind, namespace: str | None, resource_version: str, seconds: int
    ) -> AsyncIterator[Raw]:
        self.check(namespace, kind)
        read = 0
        for _ in range(seconds):
            for what, of, raw in self.cluster.watch[read:]:
                newer = int(raw["metadata"]["resourceVersion"]) > int(resource_version)
                if of is kind and newer and _is_in(raw, namespace):
                    yield {"type": what, "object": raw}
            read = len(self.cluster.watch)
            await asyncio.sleep(1)

    def version(self, _kind: Kind) -> str:
        return "v1"

    def end_watches(self) -> None:
        raise AssertionError

    async def close(self) -> None:
        pass

    async def get_lease(self, namespace: str, name: str) -> Raw:
        self.check(namespace)
        return await self.leases.get_lease(namespace, name)

    async def create_lease(self, body: Raw) -> Raw:
        self.check(body["metadata"]["namespace"])
        return await self.leases.create_lease(body)

    async def replace_lease(self, body: Raw) -> Raw:
        self.check(body["metadata"]["namespace"])
        return await self.leases.replace_lease(body)

    async def create_event(self, body: Raw) -> None:
        self.check(body["metadata"]["namespace"])
        await self.cluster.create_event(body)

    async def get(self, kind: Kind, namespace: str, name: str) -> Raw:
        self.check(namespace, kind)
        return await self.cluster.get(kind, namespace, name)

    async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw:
        self.check(body["metadata"]["namespace"], kind)
        return await self.cluster.create(kind, body, dry_run=dry_run)

    async def replace(self, kind: Kind, body: Raw) -> Raw:
        self.check(body["metadata"]["namespace"], kind)
        return await self.cluster.replace(kind, body)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, **options: Any) -> Raw:
        self.check(namespace, kind)
        return await self.cluster.delete(kind, namespace, name, uid, **options)

    async def patch_status(self, namespace: str, *args: Any) -> Raw:
        self.check(namespace, Kind.JOB)
        return await self.cluster.patch_status(namespace, *args)

    async def patch_workload(self, namespace: str, *args: Any, **options: Any) -> Raw:
        self.check(namespace, Kind.WORKLOAD)
        return await self.cluster.patch_workload(namespace, *args, **options)

    async def read(self, path: str) -> Raw:
        return await self.cluster.read(path)


def _is_in(raw: Raw, namespace: str | None) -> bool:
    return namespace in (None, raw["metadata"]["namespace"])


class Tenants:
    """Two tenants' namespaces, and an operator that names both."""

    def __init__(self) -> None:
        self.api = Api()
        self.metrics = Metrics()

    @asynccontextmanager
    async def operator(
        self, *named: str, begins: bool = True, **settings: Any
    ) -> AsyncIterator[Runtime]:
        """Run one; `begins` is whether its start comes to an end."""
        lease = {"lease_namespace": "ours", "lease_name": "operator"}
        runtime = Runtime(Settings(namespaces=named, **lease, **settings), metrics=self.metrics)
        starting = asyncio.create_task(runtime.start())
        done, _ = await asyncio.wait({starting}, timeout=60)
        assert bool(done) is begins
        yield runtime
        starting.cancel()
        await asyncio.wait({starting})
        assert runtime.health() is None
        await runtime.stop()

    def submit(self, namespace: str, name: str = "mnist", job: JobBuilder | None = None) -> JobKey:
        made = (job or a_job()).named(name, namespace=namespace)
        return self.api.cluster.submit(made.raw)

    def pods(self, namespace: str) -> set[str]:
        return {name.partition("-")[0] for name in self.api.cluster.pods(namespace)}

    def has(self, kind: Kind, namespace: str) -> bool:
        return any(key[:2] == (kind, namespace) for key in self.api.cluster.objects)

    def states(self) -> dict[str, float]:
        return {state: count for (state,), count in counted(self.metrics.registry, STATE).items()}


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], None]:
    """Play a scene in virtual time."""

    def played(scene: Scene) -> None:
        async def run(loop: VirtualLoop) -> None:
            tenants = Tenants()
            monkeypatch.setattr(namespaces, "Claims", partial(Claims, clock=loop.time))

            async def connect(**_: object) -> Api:
                return tenants.api

            monkeypatch.setattr(KubernetesApi, "connect", connect)
            await scene(tenants)

        in_virtual_time(run)

    return played


if TYPE_CHECKING:
    Scene = Callable[[Tenants], Coroutine[Any, Any, None]]
    Play = Callable[[Scene], None]


def warnings_of(caplog: pytest.LogCaptureFixture, namespace: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and namespace in record.getMessage()
    ]


def test_at_a_start_a_forbidden_namespace_is_left_out_and_taken_up_later(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(tenants: Tenants) -> None:
        tenants.api.closed = {RED}
        for namespace in (RED, BLUE):
            tenants.submit(namespace)
        async with tenants.operator(RED, BLUE) as runtime:
            await asyncio.sleep(AT_ONCE)
            assert (tenants.pods(RED), tenants.pods(BLUE)) == (set(), {"mnist"})
            assert runtime.unready() is None, "nobody else's rollout is to wait for a tenant"
            assert tenants.states() == {"held": 1, "forbidden": 1}
            tenants.submit(BLUE, "second")
            await asyncio.sleep(AT_ONCE)
            assert tenants.pods(BLUE) == {"mnist", "second"}
            await asyncio.sleep(3600)
            assert len(warnings_of(caplog, RED)) == 1

            tenants.api.closed = set()
            await asyncio.sleep(TAKEN_UP)
            assert tenants.pods(RED) == {"mnist"}
            assert tenants.states() == {"held": 2}
            tenants.submit(RED, "second")
            await asyncio.sleep(AT_ONCE)
            assert tenants.pods(RED) == {"mnist", "second"}, "it is watched"

    play(scene)


def test_a_namespace_that_becomes_forbidden_is_left_and_taken_up_again(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(tenants: Tenants) -> None:
        for namespace in (RED, BLUE):
            tenants.submit(namespace)
        async with tenants.operator(RED, BLUE) as runtime:
            await asyncio.sleep(AT_ONCE)
            assert tenants.pods(RED) == {"mnist"}
            tenants.api.closed = {RED}
            await asyncio.sleep(NOTICED_BY_LEASE)
            assert tenants.states() == {"held": 1, "forbidden": 1}
            assert len(warnings_of(caplog, RED)) == 1
            await asyncio.sleep(NOTICED)
            tenants.submit(RED, "second")
            tenants.submit(BLUE, "second")
            await asyncio.sleep(AT_ONCE)
            assert (tenants.pods(RED), tenants.pods(BLUE)) == ({"mnist"}, {"mnist", "second"})
            assert runtime.unready() is None
            tenants.api.refused.clear()
            await asyncio.sleep(3600)
            assert len(warnings_of(caplog, RED)) == 1
            assert len(tenants.api.refused) < 3600, "it is seldom asked for"

            tenants.api.cluster.remove_job(JobKey(RED, "mnist"))
            tenants.api.closed = set()
            await asyncio.sleep(TAKEN_UP)
            assert tenants.pods(RED) >= {"second"}
            assert tenants.states() == {"held": 2}
            assert runtime._store.job(JobKey(RED, "mnist")) is None

    play(scene)


def test_where_network_policies_are_forbidden_only_its_own_jobs_lack_them(play: Play) -> None:
    async def scene(tenants: Tenants) -> None:
        kinds = (Kind.NETWORK_POLICY, Kind.DISRUPTION_BUDGET)
        tenants.api.lacking = {(RED, kind) for kind in kinds}
        job = a_job().with_spec(network={"policy": "Isolated"}, disruption={"budget": "Essential"})
        async with tenants.operator(RED, BLUE):
            for namespace in (RED, BLUE):
                tenants.submit(namespace, job=job)
            await asyncio.sleep(AT_ONCE)
            assert tenants.pods(BLUE) == {"mnist"}
            assert all(tenants.has(kind, BLUE) for kind in kinds)
            assert tenants.pods(RED) == set(), "it asks for isolation"
            status = tenants.api.cluster.status(JobKey(RED, "mnist"))
            assert "no permission for networkpolicies" in status.model_dump_json()

            tenants.api.lacking = set()
            await asyncio.sleep(NOTICED)
            assert tenants.pods(RED) == {"mnist"}

    play(scene)


@pytest.mark.parametrize("gang", [Gang.AUTO, Gang.IN_TREE])
def test_where_a_gang_scheduler_is_forbidden_only_its_own_jobs_have_no_gang(
    play: Play, gang: Gang
) -> None:
    async def scene(tenants: Tenants) -> None:
        tenants.api.unserved.discard(Kind.IN_TREE_GROUP)
        tenants.api.lacking = {(RED, Kind.IN_TREE_GROUP)}
        async with tenants.operator(RED, BLUE):
            for namespace in (RED, BLUE):
                tenants.submit(namespace, job=a_job().with_spec(scheduling={"gang": gang.value}))
            await asyncio.sleep(AT_ONCE)
            found = {ns: tenants.api.cluster.status(JobKey(ns, "mnist")) for ns in (RED, BLUE)}
            assert found[BLUE].gang is not None
            assert found[BLUE].gang.scheduler is Gang.IN_TREE
            assert found[RED].gang is None
            if gang is Gang.IN_TREE:
                assert "may not list podgroups" in found[RED].model_dump_json()

    play(scene)


def test_where_kueue_is_forbidden_only_its_own_jobs_cannot_queue(play: Play) -> None:
    async def scene(tenants: Tenants) -> None:
        tenants.api.unserved.discard(Kind.WORKLOAD)
        tenants.api.lacking = {(RED, Kind.WORKLOAD)}
        async with tenants.operator(RED, BLUE):
            for namespace in (RED, BLUE):
                tenants.submit(namespace, job=a_job().with_spec(scheduling={"queue": "q"}))
            await asyncio.sleep(AT_ONCE)
            assert tenants.has(Kind.WORKLOAD, BLUE)
            assert not tenants.has(Kind.WORKLOAD, RED)
            told = tenants.api.cluster.status(JobKey(RED, "mnist")).model_dump_json()
            assert "set scheduling.kueue=true in its chart" in told

    play(scene)


def test_what_is_known_of_a_namespace_is_listed_before_its_jobs_are_worked_on(play: Play) -> None:
    """A gang is formed at the start of a job, or never."""

    async def scene(tenants: Tenants) -> None:
        tenants.api.unserved -= {Kind.IN_TREE_GROUP, Kind.WORKLOAD}
        tenants.api.closed = {RED}
        job = a_job().with_spec(network={"policy": "Isolated"})
        tenants.submit(RED, job=job)
        async with tenants.operator(RED, BLUE):
            await asyncio.sleep(AT_ONCE)
            tenants.api.closed = set()
            await asyncio.sleep(TAKEN_UP)
            assert tenants.api.cluster.status(JobKey(RED, "mnist")).gang is not None
            assert tenants.has(Kind.NETWORK_POLICY, RED)

    play(scene)


@pytest.mark.parametrize(
    ("named", "closed"),
    [
        pytest.param((), {None}, id="one that watches all, without its ClusterRole"),
        pytest.param((RED,), {RED}, id="the only namespace"),
        pytest.param((RED, BLUE), {RED, BLUE}, id="all namespaces"),
    ],
)
def test_who_may_read_nothing_is_not_ready_until_it_may(
    play: Play, named: tuple[str, ...], closed: set[str | None]
) -> None:
    async def scene(tenants: Tenants) -> None:
        tenants.api.closed = closed
        tenants.submit(RED)
        async with tenants.operator(*named, begins=False) as runtime:
            assert runtime.unready() == "jobs, pods and services are not listed yet"
            tenants.api.closed = closed - {None, RED}
            await asyncio.sleep(AT_ONCE)
            assert runtime.unready() is None
            assert tenants.pods(RED) == {"mnist"}

    play(scene)
