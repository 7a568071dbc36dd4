"""Two operator processes: one works, the other follows it, whatever becomes of the first."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.controller.main import LOST
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import Kind

from tests.integration.jobs import Made, Namespace, manifest
from tests.integration.process import Operator
from tests.integration.wire import Wire, wired
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer

SECONDS = 6
"""The lease's duration. Much shorter, and a busy machine alone would end it."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/tftraining-operator"
TASKS = ("chief-0", "ps-0", "worker-0", "worker-1")
ALL = tuple(f"mnist-{task}" for task in TASKS)


class Pair:
    """Two operators for one namespace, each with a wire of its own."""

    def __init__(self, space: Namespace, folder: Path, wires: dict[str, Wire]) -> None:
        self.space = space
        self.wires = wires
        self.operators = {
            name: Operator(
                folder / f"{name}.kubeconfig",
                folder / f"{name}.log",
                {
                    "TFTRAINING_NAMESPACES": space.name,
                    "TFTRAINING_LEASE_NAMESPACE": space.name,
                    "TFTRAINING_LEASE_IDENTITY": name,
                    "TFTRAINING_LEASE_SECONDS": str(SECONDS),
                },
            )
            for name in wires
        }

    def start(self, *names: str) -> None:
        for name in names or self.operators:
            self.operators[name].start()

    def holder(self) -> str:
        """Read who leads, '' for nobody."""
        lease = self.space.server.request("GET", LEASES.format(self.space.name)).body
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def leader(self) -> str:
        """Wait until one leads, and tell which."""
        return eventually(self.holder, "a leader", SECONDS + 10)

    def other(self, name: str) -> str:
        return next(other for other in self.operators if other != name)

    def replace(self, leader: str) -> None:
        """Kill who leads, wait until the other does, and start the killed one again."""
        self.operators[leader].stop(signal.SIGKILL)
        eventually(lambda: self.holder() != leader, "another leads", SECONDS + 10)
        self.space.end_half_deletions()
        self.start(leader)

    def stop(self) -> None:
        for operator in self.operators.values():
            operator.stop(signal.SIGKILL)


@pytest.fixture
def alone(apiserver: ApiServer, crd: str, namespace: str) -> Namespace:
    """A namespace that only the test's own operators serve."""
    assert crd
    return Namespace(apiserver, namespace)


@pytest.fixture
def pair(alone: Namespace, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        wires = {
            name: stack.enter_context(wired(alone.server, tmp_path / f"{name}.kubeconfig"))
            for name in ("one", "two")
        }
        found = Pair(alone, tmp_path, wires)
        yield found
        found.stop()


def _tasks(space: Namespace, job: str) -> set[str]:
    """Read which tasks of a job have a pod."""
    return {name.removeprefix(f"{job}-") for name in space.pods() if name.startswith(f"{job}-")}


def _attempt(space: Namespace, job: str) -> str | None:
    """Read to which attempt a job's chief belongs, None while there is no chief."""
    chief = space.pods().get(f"{job}-chief-0")
    return chief["metadata"]["labels"]["tftraining.dev/attempt"] if chief else None


def of_jobs(wire: Wire) -> list[Any]:
    """Return what was written to anything but the lease."""
    return [write for write in wire.writes if "/leases" not in write.path]


def test_one_works_and_the_other_stands_by(pair: Pair, alone: Namespace) -> None:
    began = time.monotonic()
    pair.start("one")
    assert time.monotonic() - began < SECONDS  # nobody waits for a lease that nobody holds
    pair.start("two")
    alone.apply(manifest())
    alone.wait_for_pods(*ALL)
    assert pair.holder() == "one"
    assert pair.operators["two"].healthy()
    assert pair.operators["two"].ready()
    leads = {n: o.metric("tftraining_operator_leader") for n, o in pair.operators.items()}
    assert leads == {"one": 1, "two": 0}
    assert pair.operators["one"].metric("tftraining_jobs") == 1
    assert pair.operators["two"].metric("tftraining_jobs") == 0
    assert of_jobs(pair.wires["one"])
    assert pair.wires["two"].writes == []


def test_who_ends_well_is_followed_at_once(pair: Pair, alone: Namespace) -> None:
    pair.start()
    leader = pair.leader()
    asked = time.monotonic()
    pair.operators[leader].stop(signal.SIGTERM)
    eventually(lambda: pair.holder() == pair.other(leader), "the other leads")
    # Less than kopf waits at its end for whatever it finds unfinished, and than the lease lasts.
    assert time.monotonic() - asked < 4
    alone.apply(manifest())
    alone.wait_for_pods(*ALL)


@pytest.mark.parametrize("seconds", [0.5, 0.7, 0.9, 1.1, 1.3])
def test_asked_to_end_at_any_moment_of_its_start_it_ends_and_holds_no_lease(
    pair: Pair, seconds: float
) -> None:
    pair.operators["one"].launch()
    time.sleep(seconds)
    pair.operators["one"].stop(signal.SIGTERM)
    assert pair.holder() == ""


def test_who_stands_by_ends_at_once_and_leaves_the_lease(pair: Pair) -> None:
    pair.start()
    leader = pair.leader()
    began = time.monotonic()
    pair.operators[pair.other(leader)].stop(signal.SIGTERM)
    assert time.monotonic() - began < 2
    assert pair.holder() == leader


def test_who_is_killed_is_followed_when_its_lease_is_over(pair: Pair, alone: Namespace) -> None:
    pair.start()
    leader = pair.leader()
    pair.operators[leader].stop(signal.SIGKILL)
    killed = time.monotonic()
    alone.apply(manifest())
    eventually(alone.pods, "a first pod", SECONDS + 10)
    assert time.monotonic() - killed < SECONDS + 5
    assert pair.holder() == pair.other(leader)


def test_who_is_killed_and_comes_back_goes_on_at_once(pair: Pair, alone: Namespace) -> None:
    pair.start("one")
    pair.leader()
    pair.operators["one"].stop(signal.SIGKILL)
    began = time.monotonic()
    pair.start("one")
    alone.apply(manifest())
    alone.wait_for_pods(*ALL)
    assert time.monotonic() - began < SECONDS


@pytest.mark.timeout(120)
def test_who_was_paused_beyond_its_lease_does_no_harm_and_ends(
    pair: Pair, alone: Namespace
) -> None:
    made = Made(alone)
    pair.start()
    leader = pair.leader()
    other = pair.other(leader)
    alone.apply(manifest(worker={"replicas": 120}, runPolicy={"backoffLimit": 3}))
    # In the middle of a pass: dozens of calls are on their way, and as many are yet to come.
    eventually(lambda: len(alone.pods()) > 5, "some pods")
    pair.operators[leader].pause()
    assert len(alone.pods()) < 122

    eventually(lambda: len(alone.pods()) == 122, "the other goes on", SECONDS + 20)
    assert pair.holder() == other
    alone.run_all()
    alone.end("mnist-chief-0", 75, "lost")
    alone.delete_pod("mnist-worker-7")
    eventually(lambda: alone.status().get("restarts") == 1, "the restart")
    eventually(lambda: "mnist-worker-7" in alone.pods(), "another worker")
    alone.run("mnist-worker-7")  # no chief is started before
    eventually(lambda: ("mnist-chief-0", "1") in made.look(), "the chief of the second attempt")

    before = len(pair.wires[leader].writes)
    pair.operators[leader].resume()
    assert pair.operators[leader].wait(10) == LOST
    # A call that was between its look at the lease and the socket cannot be called back. Only pods
    # were being made then, and they exist by now.
    late = pair.wires[leader].writes[before:]
    assert {(write.method, write.path.partition("?")[0]) for write in late} <= {
        ("POST", f"/api/v1/namespaces/{alone.name}/pods")
    }

    pair.operators[leader].start()  # as its kubelet does
    assert pair.holder() == other
    status = alone.status()
    assert (status["restarts"], status["attempt"]) == (1, 1)
    assert len(alone.pods()) == 122
    history = made.look()
    assert len(history.pop(("mnist-worker-7", "0"), set())) <= 2  # it was deleted once
    assert {name: len(uids) for name, uids in history.items() if len(uids) > 1} == {}


def test_who_is_cut_off_ends_before_its_lease_does(pair: Pair) -> None:
    pair.start()
    leader = pair.leader()
    pair.wires[leader].block()
    began = time.monotonic()
    assert pair.operators[leader].wait(SECONDS) == LOST
    assert time.monotonic() - began < SECONDS
    assert eventually(lambda: pair.holder() == pair.other(leader), "the other leads", SECONDS + 5)


def test_who_stands_by_lives_on_while_it_is_cut_off_but_is_not_ready(pair: Pair) -> None:
    pair.start()
    other = pair.other(pair.leader())
    pair.wires[other].block()
    eventually(lambda: not pair.operators[other].ready(), "it says that it cannot lead")
    assert pair.operators[other].healthy()
    pair.wires[other].unblock()
    eventually(pair.operators[other].ready, "it is ready again")


@pytest.mark.timeout(300)
def test_leaders_killed_one_after_the_other_make_nothing_twice(
    pair: Pair, alone: Namespace
) -> None:
    """Four kills: each time somewhere in the creation, or the restart, of three more jobs."""
    made = Made(alone)
    pair.start()
    for number in range(2):
        jobs = [f"job{number}-{letter}" for letter in "abc"]
        leader = pair.leader()
        for job in jobs:
            alone.apply(manifest(job))
        eventually(lambda n=number: len(alone.pods()) > 12 * n + 2 * n, "some of their pods")
        pair.replace(leader)
        for job in jobs:
            eventually(lambda job=job: _tasks(alone, job) == set(TASKS), f"the pods of {job}")
            alone.run(*(f"{job}-{task}" for task in ("ps-0", "worker-0", "worker-1", "chief-0")))

        leader = pair.leader()
        for job in jobs:
            alone.end(f"{job}-chief-0", 75, "lost")
        time.sleep(0.1 * number)
        pair.replace(leader)
        for job in jobs:
            eventually(lambda job=job: _attempt(alone, job) == "1", f"the second chief of {job}")
        made.look()

    history = made.look()
    assert {name: len(uids) for name, uids in history.items() if len(uids) > 1} == {}
    assert len(history) == 6 * (len(TASKS) + 1)
    for job in {name.partition("-chief-")[0] for name in alone.pods() if "-chief-" in name}:
        status = alone.status(job)
        assert (status["restarts"], status["attempt"]) == (1, 1)
        assert _tasks(alone, job) == set(TASKS)


def test_a_cluster_whose_lease_is_over_writes_nothing(alone: Namespace) -> None:
    async def scene() -> None:
        left = 60.0
        cluster = await KubernetesApi.connect(
            str(alone.server.kubeconfig), seconds_left=lambda: left
        )
        try:
            service = _service(alone.name, "before")
            before = await cluster.create(Kind.SERVICE, service)
            left = 0.0
            writes = (
                cluster.create(Kind.SERVICE, _service(alone.name, "after")),
                cluster.create(Kind.SERVICE, _service(alone.name, "dry"), dry_run=True),
                cluster.delete(Kind.SERVICE, alone.name, "before", before["metadata"]["uid"]),
                cluster.patch_status(alone.name, "mnist", "1", {"restarts": 7}),
                cluster.create_event({"metadata": {"namespace": alone.name, "name": "e"}}),
            )
            for write in writes:
                with pytest.raises(errors.NotLeadingError):
                    await write
            assert (await cluster.get(Kind.SERVICE, alone.name, "before"))["metadata"] == before[
                "metadata"
            ]
        finally:
            await cluster.close()

    asyncio.run(scene())
    assert alone.services() == ["before"]


def test_a_write_that_is_held_up_ends_with_the_lease(alone: Namespace, tmp_path: Path) -> None:
    async def scene(wire: Wire) -> None:
        ends = asyncio.get_running_loop().time() + 1
        cluster = await KubernetesApi.connect(
            str(tmp_path / "kubeconfig"),
            seconds_left=lambda: ends - asyncio.get_running_loop().time(),
        )
        try:
            wire.block()
            with pytest.raises(errors.TransientError):
                await cluster.create(Kind.SERVICE, _service(alone.name, "late"))
            assert asyncio.get_running_loop().time() < ends + 1
        finally:
            await cluster.close()

    with wired(alone.server, tmp_path / "kubeconfig") as wire:
        asyncio.run(scene(wire))


def _service(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {"tftraining.dev/job-name": "mnist"},
        },
        "spec": {"clusterIP": "None"},
    }
