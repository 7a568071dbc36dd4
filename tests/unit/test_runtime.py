"""The process says that it is unwell when it no longer works, so that it is started again."""

from __future__ import annotations

import asyncio
import copy
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.controller.kubernetes_api import Call, KubernetesApi
from tftraining_operator.controller.runtime import STUCK_SECONDS, Runtime
from tftraining_operator.controller.settings import Settings
from tftraining_operator.controller.sharding import shard_of
from tftraining_operator.core import slim
from tftraining_operator.reconcile.errors import TransientError
from tftraining_operator.reconcile.store import JobKey, Kind
from tftraining_operator.reconcile.workqueue import SOON, WorkQueue

from tests.unit.builders import PodBuilder, a_job, a_pod
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.unit.virtual_time import VirtualLoop

KEY = JobKey("default", "mnist")


async def test_a_pass_that_never_ends_makes_the_process_unwell() -> None:
    now = 0.0
    began = asyncio.Event()

    async def hang(_key: JobKey) -> float | None:
        began.set()
        await asyncio.Event().wait()
        return None

    runtime = Runtime(Settings())
    runtime._queue = WorkQueue(hang, workers=1, clock=lambda: now)
    working = asyncio.create_task(runtime._queue.run())
    runtime._tasks.append(working)
    assert runtime.health() is None

    runtime._queue.add(KEY)
    await began.wait()
    assert runtime.health() is None
    now = STUCK_SECONDS + 1
    assert runtime.health() == "jobs wait, and for 121 s no pass began, wrote or ended"
    for verb, resource in (("update", "leases"), ("list", "pods")):
        runtime._saw_call(Call(verb, resource, "200", 0.1))
    assert runtime.health(), "these are of no pass"
    runtime._saw_call(Call("create", "pods", "201", 5.0))
    assert runtime.health() is None, "a pass may be long, as that of a thousand pods"

    await runtime.stop()
    assert working.cancelled()


async def test_until_its_first_pass_may_come_it_is_not_ready_but_well() -> None:
    runtime = Runtime(Settings())
    assert runtime.unready() == "jobs, pods and services are not listed yet"
    assert runtime.health() is None

    runtime.start_task("queue", asyncio.Event().wait())
    assert runtime.unready() is None
    await runtime.stop()


async def test_a_background_task_that_exited_makes_the_process_unwell(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken() -> None:
        raise RuntimeError("out of order")

    runtime = Runtime(Settings())
    runtime.start_task("resync", broken())
    assert runtime.health() is None
    await asyncio.wait(runtime._tasks)

    assert runtime.health() == "a background task exited: resync"
    await runtime.stop()
    (record,) = caplog.records
    assert record.getMessage() == "background task resync exited"
    assert record.exc_info is not None, "with its traceback"
    assert str(record.exc_info[1]) == "out of order"


async def test_a_background_task_that_is_stopped_did_not_exit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime = Runtime(Settings())
    runtime.start_task("resync", asyncio.Event().wait())
    await runtime.stop()
    assert caplog.records == []


@pytest.mark.parametrize(("takes", "times"), [(0.1, 12), (2.0, 12), (30.0, 1)])
def test_resyncs_take_no_more_than_a_hundredth_of_the_time(takes: float, times: int) -> None:
    """That of the start counts as well: it was all that the API server had to do for a while."""
    moments: list[float] = []

    class Listed:
        took = takes

        async def list_all(self) -> None:
            moments.append(asyncio.get_running_loop().time())
            await asyncio.sleep(takes)

    async def scene(_loop: VirtualLoop) -> None:
        runtime = Runtime(Settings(resync_seconds=300))
        syncing = asyncio.create_task(runtime._keep_in_sync(Listed()))  # type: ignore[arg-type]
        await asyncio.wait({syncing}, timeout=3601)
        syncing.cancel()

    in_virtual_time(scene)
    assert abs(len(moments) - times) <= 0.2 * times
    assert moments[0] >= 0.8 * max(300, 100 * takes)


@pytest.mark.parametrize(
    ("busy", "earliest"),
    [
        pytest.param(700, 700, id="until the flood is over"),
        pytest.param(math.inf, 1140, id="not for ever"),
    ],
)
def test_a_resync_is_put_off_while_very_many_jobs_wait(busy: float, earliest: float) -> None:
    """Each shard lists all that it has: 7 % of the CPU time meanwhile, in a flood of 5,000."""
    moments: list[float] = []

    class Listed:
        took = 0.1

        async def list_all(self) -> None:
            moments.append(asyncio.get_running_loop().time())

    class Flooded:
        def depth(self) -> int:
            return 250 if asyncio.get_running_loop().time() < busy else 249

    async def scene(_loop: VirtualLoop) -> None:
        runtime = Runtime(Settings(resync_seconds=300))
        runtime._queue = Flooded()  # type: ignore[assignment]
        syncing = asyncio.create_task(runtime._keep_in_sync(Listed()))  # type: ignore[arg-type]
        await asyncio.wait({syncing}, timeout=1300)
        syncing.cancel()

    in_virtual_time(scene)
    assert earliest <= moments[0] <= earliest + 130


async def test_the_time_is_that_of_the_api_servers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a clock that is ahead would take each pod that ends for one that a lost node holds."""
    there = datetime.now(UTC) - timedelta(minutes=3)

    async def connect(*, heard: Callable[[str], None], **_given: Any) -> KubernetesApi:
        heard(format_datetime(there, usegmt=True))
        raise TransientError("the rest is of no matter")

    monkeypatch.setattr(KubernetesApi, "connect", connect)
    runtime = Runtime(Settings())
    with pytest.raises(TransientError):
        await runtime.start()
    assert abs(runtime._clock() - there) < timedelta(seconds=9)


@pytest.mark.parametrize("begun", [True, False])
async def test_a_stop_ends_the_gaining_of_a_shard(*, begun: bool) -> None:
    """So that its leases are released, and nobody has to wait until they expire."""

    class Disconnected:
        async def succeed(self) -> None:
            await asyncio.Event().wait()

    runtime = Runtime(Settings(shards=2))
    runtime._listings = Disconnected()  # type: ignore[assignment]
    runtime.start_task("queue", asyncio.Event().wait())
    if not begun:
        await runtime.stop()
    gaining = asyncio.create_task(runtime.gain(shard_of(*KEY, 2)))
    await asyncio.sleep(0)
    await runtime.stop()

    await asyncio.wait_for(gaining, 1)
    assert not runtime._share.works_on(KEY), "its objects are not known"


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        pytest.param(lambda pod: pod, True, id="it was created"),
        pytest.param(lambda pod: pod.running(ready=False), True, id="it runs"),
        pytest.param(lambda pod: pod.running(), True, id="it is ready"),
        pytest.param(lambda pod: pod.waiting("PodInitializing"), True, id="it starts"),
        pytest.param(lambda pod: pod.waiting("ErrImagePull"), False, id="it has no image"),
        pytest.param(lambda pod: pod.exited(137), False, id="it failed"),
        pytest.param(lambda pod: pod.exited(0), False, id="it is done"),
        pytest.param(lambda pod: pod.restarted_in_place(137), False, id="it starts again"),
        pytest.param(lambda pod: pod.evicted(), False, id="it is evicted"),
        pytest.param(lambda pod: pod.running().deleting(), False, id="it is to end"),
    ],
)
def test_only_a_pod_that_starts_waits_for_the_others(
    change: Callable[[PodBuilder], PodBuilder], *, waits: bool
) -> None:
    raw = _stored(change(a_pod(a_job().build(), Role.WORKER)).raw)
    assert _first_pass(Kind.POD, raw) == pytest.approx(SOON if waits else 0.0)


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        pytest.param(lambda job: job["status"].update(state="Running"), True, id="its status"),
        pytest.param(lambda job: job["metadata"].update(generation=2), False, id="its spec"),
        pytest.param(lambda job: job["metadata"].update(labels={"a": "b"}), False, id="a label"),
    ],
)
def test_only_a_status_that_a_watch_tells_of_waits(
    change: Callable[[dict[str, Any]], object], *, waits: bool
) -> None:
    raw = _stored(a_job().raw)
    raw.setdefault("status", {})
    changed = _stored(copy.deepcopy(raw), version="8")
    change(changed)
    assert _first_pass(Kind.JOB, changed, [(Kind.JOB, raw)]) == pytest.approx(
        SOON if waits else 0.0
    )


def test_among_many_jobs_the_last_pod_that_is_ready_does_not_wait_as_the_others_do() -> None:
    job = a_job().build()
    jobs = [(Kind.JOB, _stored(a_job().named(f"j{n}", uid=f"j{n}").raw)) for n in range(100)]
    ready = _stored(a_pod(job, Role.WORKER, 0).running().raw)
    starts, runs = a_pod(job, Role.WORKER, 1), a_pod(job, Role.WORKER, 1).running()
    waits = [_first_pass(Kind.POD, ready, [*jobs, (Kind.POD, each.raw)]) for each in (starts, runs)]
    assert waits == pytest.approx([1.0, SOON])


def _first_pass(
    kind: Kind, seen: dict[str, Any], known: Sequence[tuple[Kind, dict[str, Any]]] = ()
) -> float:
    """Return how long (s) after a watch event the only pass begins; `known` was there before."""
    worked: list[float] = []

    async def scene(loop: VirtualLoop) -> None:
        async def work(_key: JobKey) -> float | None:
            worked.append(loop.time())
            return None

        runtime = Runtime(Settings())
        for each in known:
            runtime._store.put(*each)
        runtime._queue = WorkQueue(work, workers=1)
        runtime.start_task("queue", runtime._queue.run())
        cut = slim.pod if kind is Kind.POD else slim.job
        runtime.see(kind, cut(seen), "MODIFIED")
        await asyncio.sleep(2)
        await runtime.stop()

    in_virtual_time(scene)
    (moment,) = worked
    return moment


def _stored(raw: dict[str, Any], *, version: str = "7") -> dict[str, Any]:
    raw["metadata"]["resourceVersion"] = version
    return raw


def test_where_kueue_comes_jobs_that_train_are_looked_at_after_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked: list[str] = []
    monkeypatch.setattr(
        "tftraining_operator.controller.first_looks.is_at_rest",
        lambda raw, _pods, _now: raw["metadata"]["name"] != "waits",
    )

    async def scene(_loop: VirtualLoop) -> None:
        async def work(key: JobKey) -> float | None:
            worked.append(key.name)
            return None

        runtime = Runtime(Settings())
        for name in ("trains", "waits"):
            runtime._store.put(Kind.JOB, _stored(a_job().named(name, uid=name).raw))
        runtime._queue = WorkQueue(work, workers=1)
        runtime.start_task("queue", runtime._queue.run())
        runtime._look_at_all()
        await asyncio.sleep(1)
        await runtime.stop()

    in_virtual_time(scene)
    assert worked == ["waits", "trains"]
