"""The fake and the real API server behind one face: the operator's calls, and what others do.

Users, the scheduler, kubelets and the garbage collector act on both in the same words, so that
one test function asks both the same question.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tftraining_operator.api import keys
from tftraining_operator.controller.kubernetes_api import plural
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind

from tests.unit.fakes import FakeCluster
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tftraining_operator.controller.kubernetes_api import KubernetesApi

    from tests.apiserver import ApiServer
    from tests.unit.builders import Raw

KINDS = (Kind.JOB, Kind.POD, Kind.SERVICE, Kind.NETWORK_POLICY, Kind.DISRUPTION_BUDGET)
"""What every API server has; groups of schedulers are in tests/integration/test_gang.py."""

_BASES = {
    Kind.JOB: f"/apis/{keys.API_VERSION}",
    Kind.NETWORK_POLICY: "/apis/networking.k8s.io/v1",
    Kind.DISRUPTION_BUDGET: "/apis/policy/v1",
}

WATCH_SECONDS = 20
COLLECTION_SECONDS = 60.0


class Api(Protocol):
    """All that the operator asks of an API server."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Raw: ...
    async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw: ...
    async def replace(self, kind: Kind, body: Raw) -> Raw: ...
    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> Raw: ...
    async def delete_servers(self, namespace: str, job: str, uid: str) -> None: ...
    async def patch_status(
        self, namespace: str, name: str, resource_version: str, patch: Raw
    ) -> Raw: ...
    async def create_event(self, body: Raw) -> None: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """One watch event."""

    what: str
    raw: Raw

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def version(self) -> int:
        return int(self.raw["metadata"]["resourceVersion"])


class Server(Protocol):
    """An API server with one namespace for the test."""

    api: Api
    namespace: str

    async def listed(self, kind: Kind) -> tuple[list[Raw], int]:
        """List what the operator lists, and at which resource version."""

    def watched(self, kind: Kind, until: Callable[[Seen], bool]) -> list[Seen]:
        """Return what the operator's watch tells from the beginning to an event."""

    def events(self) -> list[Raw]:
        """Return the events.k8s.io of the namespace."""

    def edit(self, job: str, change: Callable[[Raw], object]) -> Raw:
        """Let a user change a job's spec."""

    def bind(self, pod: str) -> None:
        """Let the scheduler give a pod to a node."""

    def report(self, pod: str, status: Raw) -> None:
        """Let the kubelet merge into a pod's status."""

    def let_go(self, pod: str) -> None:
        """Let the kubelet tell that a pod's containers have ended."""

    def label(self, pod: str, labels: Mapping[str, str | None]) -> None:
        """Let a user set labels, or take them away."""

    def allow_pods(self, count: int) -> None:
        """Let an administrator set a quota."""

    def close(self) -> None:
        """Let a user delete the namespace, which still has something in it."""

    async def collect_garbage(self, *gone: tuple[Kind, str]) -> None:
        """Return when the garbage collector has taken these."""


@dataclass
class FakeServer:
    """The fake, which all tests without a server run on."""

    api: FakeCluster = field(default_factory=FakeCluster)
    namespace: str = "default"

    async def listed(self, kind: Kind) -> tuple[list[Raw], int]:
        items, version = self.api.listing(kind)
        return items, int(version)

    def watched(self, kind: Kind, until: Callable[[Seen], bool]) -> list[Seen]:
        return _up_to(until, (Seen(what, raw) for what, k, raw in self.api.watch if k is kind))

    def events(self) -> list[Raw]:
        return self.api.events

    def edit(self, job: str, change: Callable[[Raw], object]) -> Raw:
        key = JobKey(self.namespace, job)
        self.api.edit(key, change)
        return self.api.job(key)

    def bind(self, pod: str) -> None:
        self.api.act(pod, lambda p: p.raw["spec"].update(nodeName="node-1"))

    def report(self, pod: str, status: Raw) -> None:
        self.api.act(pod, lambda p: p.status.update(status))

    def let_go(self, pod: str) -> None:
        self.api.collect(pod)

    def label(self, pod: str, labels: Mapping[str, str | None]) -> None:
        self.api.label(pod, labels)

    def allow_pods(self, count: int) -> None:
        def full(kind: Kind, _body: Raw) -> errors.ApiError | None:
            if kind is not Kind.POD or len(self.api.pods()) < count:
                return None
            return errors.ForbiddenError(f"exceeded quota: pods={count}", status=403)

        self.api.refuse = full

    def close(self) -> None:
        self.api.closing.add(self.namespace)

    async def collect_garbage(self, *gone: tuple[Kind, str]) -> None:
        assert gone
        self.api.collect_garbage()


@dataclass
class RealServer:
    """A kube-apiserver, called as the operator calls it and, beside that, as its administrator."""

    api: KubernetesApi
    namespace: str
    server: ApiServer
    beginning: Mapping[Kind, int]
    """Resource versions from which to watch."""

    async def listed(self, kind: Kind) -> tuple[list[Raw], int]:
        listing = await self.api.list(kind, self.namespace)
        return listing.items, int(listing.resource_version)

    def watched(self, kind: Kind, until: Callable[[Seen], bool]) -> list[Seen]:
        told = self.server.watch(
            self._path(kind),
            str(self.beginning[kind]),
            WATCH_SECONDS,
            selector="" if kind is Kind.JOB else keys.LABEL_JOB,
        )
        return _up_to(until, (Seen(event["type"], event["object"]) for event in told))

    def events(self) -> list[Raw]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found: list[Raw] = self._call("GET", path)["items"]
        return found

    def edit(self, job: str, change: Callable[[Raw], object]) -> Raw:
        path = self._path(Kind.JOB, job)
        raw = self._call("GET", path)
        change(raw["spec"])
        return self._call("PUT", path, raw)

    def bind(self, pod: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        body = {"metadata": {"name": pod}, "target": target}
        self._call("POST", f"{self._path(Kind.POD, pod)}/binding", body)
        # A deletion begins with what the API server's cache holds. Of a pod without a node it sets
        # the grace to 0, and keeps that when it looks again and finds the pod bound.
        cached = f"{self._path(Kind.POD, pod)}?resourceVersion=0"
        eventually(lambda: "nodeName" in self._call("GET", cached)["spec"], f"{pod} is bound")

    def report(self, pod: str, status: Raw) -> None:
        self._patch(f"{self._path(Kind.POD, pod)}/status", {"status": status})

    def let_go(self, pod: str) -> None:
        self._call("DELETE", self._path(Kind.POD, pod), {"gracePeriodSeconds": 0})

    def label(self, pod: str, labels: Mapping[str, str | None]) -> None:
        self._patch(self._path(Kind.POD, pod), {"metadata": {"labels": dict(labels)}})

    def allow_pods(self, count: int) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        spec = {"hard": {"pods": str(count)}}
        self._call("POST", path, {"metadata": {"name": "pods"}, "spec": spec})

        def use(pods: int) -> None:
            """Write what its controller would, and wait until new pods are judged by it."""
            status = {"status": {**spec, "used": {"pods": str(pods)}}}
            self._patch(f"{path}/pods/status", status)
            eventually(lambda: self._takes_a_pod() is (pods < count), f"{pods} of {count} are used")

        # A quota that the API server has not seen yet lets everything through: full first.
        use(count)
        if count:
            use(0)

    def close(self) -> None:
        self._call("DELETE", f"/api/v1/namespaces/{self.namespace}")

    async def collect_garbage(self, *gone: tuple[Kind, str]) -> None:
        def collected() -> bool:
            return all(
                self.server.request("GET", self._path(kind, name)).status == 404
                for kind, name in gone
            )

        await asyncio.to_thread(
            eventually, collected, f"{gone} are collected", seconds=COLLECTION_SECONDS
        )

    def _takes_a_pod(self) -> bool:
        body = {
            "metadata": {"name": "another"},
            "spec": {"containers": [{"name": "any", "image": "any"}]},
        }
        return self.server.request("POST", f"{self._path(Kind.POD)}?dryRun=All", body).ok

    def _path(self, kind: Kind, name: str = "") -> str:
        path = f"{_BASES.get(kind, '/api/v1')}/namespaces/{self.namespace}/{plural(kind)}"
        return f"{path}/{name}" if name else path

    def _patch(self, path: str, body: Raw) -> Raw:
        return self._call("PATCH", path, body, content_type="application/merge-patch+json")

    def _call(self, method: str, path: str, body: Raw | None = None, **options: Any) -> Raw:
        answer = self.server.request(method, path, body, **options)
        assert answer.ok, answer.message
        return answer.body


def _up_to(until: Callable[[Seen], bool], told: Iterator[Seen]) -> list[Seen]:
    found = []
    for seen in told:
        found.append(seen)
        if until(seen):
            return found
    raise AssertionError(f"the watch ended after {[(s.what, s.name) for s in found]}")
