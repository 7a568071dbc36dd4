"""A pod that lost our label is watched by nobody, and read until it has the label again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.job import parse_job
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind, Store
from tftraining_operator.reconcile.unlisted import read_unlisted

from tests.unit.builders import IMAGE, NOW, JobBuilder, a_job
from tests.unit.fakes import FakeCluster, Operator, copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.builders import Raw

KEY = JobKey("default", "mnist")
POD = "mnist-worker-0"


class Bench:
    """A cluster with one pod that has just lost our label, as its watch tells a store."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.store = Store()
        self.looked: list[JobKey] = []
        job = parse_job(self.cluster.job(self.cluster.submit(a_job().raw)), NOW)
        self.body = desired.pod(job, Role.WORKER, 0, 0, IMAGE)
        asyncio.run(self.cluster.create(Kind.POD, self.body))
        self.cluster.label(POD, {keys.LABEL_JOB: None})
        for what, kind, raw in self.cluster.watch:
            take = self.store.remove if what == "DELETED" else self.store.put
            take(kind, copied(raw))

    def read(self) -> None:
        asyncio.run(read_unlisted(self.cluster, self.store, self.looked.append))

    @property
    def phase(self) -> str | None:
        pods = self.store.children(Kind.POD, KEY)
        return pods[0]["status"]["phase"] if pods else None


def test_a_healthy_pod_that_lost_our_label_stays_known() -> None:
    bench = Bench()
    assert bench.phase == "Pending"
    bench.read()
    assert bench.phase == "Pending"
    assert bench.looked == []


def test_its_changes_are_noticed_though_no_watch_tells_them() -> None:
    bench = Bench()
    bench.cluster.act(POD, lambda pod: pod.running())
    bench.read()
    assert bench.phase == "Running"
    assert bench.looked == [KEY]


def test_what_is_listed_again_is_not_read() -> None:
    bench = Bench()
    bench.cluster.label(POD, {keys.LABEL_JOB: "mnist"})
    bench.store.put(Kind.POD, copied(bench.cluster.pods()[POD]))
    bench.read()
    assert bench.cluster.calls["get"] == 0


def recreate(bench: Bench) -> None:
    bench.cluster.collect(POD)
    asyncio.run(bench.cluster.create(Kind.POD, bench.body))


@pytest.mark.parametrize(
    ("end", "left"),
    [
        pytest.param(lambda bench: bench.cluster.collect(POD), None, id="gone"),
        pytest.param(recreate, "Pending", id="another of its name"),
    ],
)
def test_its_end_is_noticed(end: Callable[[Bench], None], left: str | None) -> None:
    bench = Bench()
    uid = bench.store.children(Kind.POD, KEY)[0]["metadata"]["uid"]
    end(bench)
    bench.read()
    assert bench.phase == left
    assert uid not in {raw["metadata"]["uid"] for raw in bench.store.children(Kind.POD, KEY)}
    assert KEY in bench.looked


def test_one_that_may_not_be_read_keeps_no_other_from_being_read() -> None:
    bench = Bench()
    own = copied(bench.cluster.pods()[POD])
    other = {**own, "metadata": own["metadata"] | {"namespace": "forbidden", "uid": "other"}}
    store, asked = Store(), list[str]()
    for raw in (other, own):
        store.put(Kind.POD, raw)
    bench.cluster.act(POD, lambda pod: pod.running())

    class Api(FakeCluster):
        async def get(self, kind: Kind, namespace: str, name: str) -> Raw:
            asked.append(namespace)
            if namespace == "forbidden":
                raise errors.ForbiddenError("no", status=403)
            return await bench.cluster.get(kind, namespace, name)

    with pytest.raises(errors.ForbiddenError):
        asyncio.run(read_unlisted(Api(), store, bench.looked.append))
    assert asked == ["forbidden", "default"]
    assert bench.looked == [KEY]
    asked.clear()
    asyncio.run(read_unlisted(Api(), store, bench.looked.append, {"forbidden"}.__contains__))
    assert asked == ["default"], "it is known"


@pytest.fixture
def operator() -> Iterator[Operator]:
    with asyncio.Runner() as runner:
        yield Operator(FakeCluster(), runner)


def running(operator: Operator, job: JobBuilder) -> JobKey:
    key = operator.cluster.submit(job.raw)
    operator.settle()
    operator.cluster.run_pods()
    operator.settle()
    return key


@pytest.mark.parametrize("pod", ["mnist-chief-0", "mnist-worker-0", "mnist-ps-0"])
def test_a_running_job_is_not_disturbed_by_the_loss_of_a_label(
    operator: Operator, pod: str
) -> None:
    key = running(operator, a_job().with_workers(2))
    pods = {name: raw["metadata"]["uid"] for name, raw in operator.cluster.pods().items()}
    calls = operator.cluster.calls["create"] + operator.cluster.calls["delete"]
    operator.cluster.label(pod, {keys.LABEL_JOB: None})
    operator.wait(600)
    operator.cluster.label(pod, {keys.LABEL_JOB: "mnist"})
    operator.wait(600)
    found = {name: raw["metadata"]["uid"] for name, raw in operator.cluster.pods().items()}
    assert found == pods
    assert operator.cluster.calls["create"] + operator.cluster.calls["delete"] == calls
    status = operator.cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 0, 0)


def test_the_end_of_a_chief_without_our_label_ends_the_job(operator: Operator) -> None:
    key = running(operator, a_job())
    operator.cluster.label("mnist-chief-0", {keys.LABEL_JOB: None})
    operator.settle()
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.settle()
    assert operator.cluster.status(key).state == "Succeeded"


@pytest.mark.parametrize("pod", ["mnist-chief-0", "mnist-worker-0", "mnist-ps-0"])
def test_a_new_operator_finds_a_pod_without_our_label_and_leaves_it(
    operator: Operator, pod: str
) -> None:
    key = running(operator, a_job())
    pods = {name: raw["metadata"]["uid"] for name, raw in operator.cluster.pods().items()}
    operator.cluster.label(pod, {keys.LABEL_JOB: None})
    successor = Operator(operator.cluster, operator.runner)
    successor.settle()
    successor.wait(600)
    found = {name: raw["metadata"]["uid"] for name, raw in operator.cluster.pods().items()}
    assert found == pods
    status = operator.cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 0, 0)
    assert successor.passes < 50
