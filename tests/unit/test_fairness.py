"""A small job beside a namespace with many: whose calls come first, with fairness and without."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.reconcile import limits
from tftraining_operator.reconcile.limits import Limits
from tftraining_operator.reconcile.reconciler import Reconciler
from tftraining_operator.reconcile.store import JobKey, Kind, Store
from tftraining_operator.reconcile.workqueue import WorkQueue

from tests.unit.builders import IMAGE, Raw, a_job
from tests.unit.fakes import FakeCluster, FakeProgress, copied

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.api.types import ObjectMeta
    from tftraining_operator.core.events import Event

MANY = 24
PODS = 4


class Server(FakeCluster):
    """A server that answers after a while, and notes of whom each pod is."""

    created: list[str]

    async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw:
        await asyncio.sleep(0.001)
        if kind is Kind.POD and not dry_run:
            self.created.append(body["metadata"]["namespace"])
        return await super().create(kind, body, dry_run=dry_run)


async def pods_before_the_small_jobs_last(group: Callable[[JobKey], str | None]) -> int:
    """Create many jobs, then a small one of another namespace; count the pods made before its."""
    cluster, store = Server(), Store()
    cluster.created = []

    async def record(_job: ObjectMeta, _events: list[Event]) -> None:
        return

    reconciler = Reconciler(
        cluster, store, FakeProgress(), record, trainer_image=IMAGE, clock=cluster.clock
    )
    queue = WorkQueue(reconciler, workers=4, group=group)
    names = [("many", f"job-{number}") for number in range(MANY)] + [("few", "small")]
    for namespace, name in names:
        key = cluster.submit(a_job().with_workers(2).named(name, namespace=namespace).raw)
        store.put(Kind.JOB, copied(cluster.objects[Kind.JOB, namespace, name]))
        queue.add(key)
    running = asyncio.create_task(queue.run())
    async with asyncio.timeout(30):
        while cluster.created.count("few") < PODS:  # noqa: ASYNC110 - another task's state
            await asyncio.sleep(0.001)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return len(cluster.created) - PODS


async def test_a_namespace_with_many_jobs_does_not_delay_a_small_one() -> None:
    fair = await pods_before_the_small_jobs_last(lambda key: key.namespace)
    unfair = await pods_before_the_small_jobs_last(lambda _key: None)
    assert fair <= 5 * PODS
    assert unfair >= (MANY - 5) * PODS


@pytest.mark.parametrize(("shards", "each"), [(2, limits.NAMESPACE / 2), (3, 12)])
async def test_the_shards_share_the_calls_of_a_namespace(shards: int, each: int) -> None:
    calls, never = Limits(shards), asyncio.Event()
    at_work: list[int] = []

    async def call(job: int) -> None:
        async with calls.one(JobKey("a", f"{job}")):
            at_work.append(job)
            await never.wait()

    waiting = [asyncio.create_task(call(job)) for job in range(100)]
    await asyncio.sleep(0.1)
    assert len(at_work) == each
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_job_of_a_thousand_pods_leaves_calls_to_others() -> None:
    """As does a namespace in which an admission webhook never answers."""
    calls, never = Limits(), asyncio.Event()
    at_work: list[JobKey] = []

    async def call(key: JobKey) -> None:
        async with calls.one(key):
            at_work.append(key)
            await never.wait()

    large, beside, other = JobKey("a", "large"), JobKey("a", "beside"), JobKey("b", "other")
    waiting = [asyncio.create_task(call(large)) for _ in range(1000)]
    waiting += [asyncio.create_task(call(JobKey("a", f"{n}"))) for n in range(1000)]
    waiting += [asyncio.create_task(call(each)) for each in [beside] * 8 + [other] * 8]
    await asyncio.sleep(0.1)
    assert at_work.count(large) == limits.JOB
    assert sum(key.namespace == "a" for key in at_work) == limits.NAMESPACE
    assert at_work.count(other) == 8
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(1), calls.one(beside):
        assert beside not in at_work
