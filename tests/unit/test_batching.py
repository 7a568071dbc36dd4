"""Where very many jobs wait, what arrives within a moment shares a turn of the event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.controller import main
from tftraining_operator.controller.batching import LONGEST, MANY, BatchingSelector, Moment
from tftraining_operator.controller.kubernetes_api import Call
from tftraining_operator.controller.settings import Settings
from tftraining_operator.reconcile.store import JobKey
from tftraining_operator.reconcile.workqueue import WorkQueue

from tools.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tftraining_operator.controller.runtime import Runtime


@pytest.fixture
def selector() -> Iterator[BatchingSelector]:
    with BatchingSelector() as made:
        yield made


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no time pass in sleeps; return them."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


@pytest.fixture
def readable() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"an answer")
        yield ours


@pytest.mark.parametrize(
    ("waiting", "calls", "moment"),
    [
        pytest.param(MANY - 1, [10.0], 0.0, id="few jobs"),
        pytest.param(MANY, [], 0.0, id="no call yet"),
        pytest.param(MANY, [0.02] * 200, 0.01, id="a fast API server: half a call"),
        pytest.param(MANY, [30.0], LONGEST, id="a late one"),
        pytest.param(MANY, [30.0] + [0.02] * 300, 0.01, id="one that was late"),
    ],
)
def test_for_how_long_it_waits(waiting: int, calls: list[float], moment: float) -> None:
    found = Moment(lambda: waiting)
    for seconds in calls:
        found.took(seconds)
    assert found() == pytest.approx(moment, rel=0.01)


def test_what_arrives_is_worked_on_at_once(
    selector: BatchingSelector, readable: socket.socket, slept: list[float]
) -> None:
    selector.register(readable, 1)
    assert len(selector.select(1)) == 1
    assert not slept


def test_with_a_moment_it_is_worked_on_with_what_comes_meanwhile(
    selector: BatchingSelector, readable: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for each in (readable, ours):
            selector.register(each, 1)
        selector.moment = lambda: LONGEST

        def sleep(seconds: float) -> None:
            assert seconds == LONGEST
            theirs.send(b"another answer")

        monkeypatch.setattr(time, "sleep", sleep)
        assert {key.fileobj for key, _ in selector.select(1)} == {readable, ours}


def test_other_work_waits_for_nothing(
    selector: BatchingSelector, readable: socket.socket, slept: list[float]
) -> None:
    selector.register(readable, 1)
    selector.moment = lambda: LONGEST
    assert len(selector.select(0)) == 1, "the loop has callbacks to run"
    assert not slept


def test_a_timer_is_not_late_where_nothing_arrives(slept: list[float]) -> None:
    selector = BatchingSelector()
    selector.moment = lambda: LONGEST

    async def scene() -> float:
        began = time.monotonic()
        await asyncio.sleep(0.01)
        return time.monotonic() - began

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(scene()) >= 0.01
    assert not slept


async def test_the_moment_is_of_the_operators_queue_and_its_passes_calls(
    monkeypatch: pytest.MonkeyPatch, selector: BatchingSelector
) -> None:
    async def work(_key: JobKey) -> float | None:
        return None

    moments: list[float] = []

    async def lead(_settings: object, _leads: object, runtime: Runtime, _stop: object) -> None:
        moments.append(selector.moment())
        queue = runtime._queue = WorkQueue(work, workers=1)
        for number in range(MANY):
            queue.add(JobKey("default", f"job-{number}"))
        moments.append(selector.moment())
        runtime._saw_call(Call("get", "pods", "200", 30.0))
        runtime._saw_call(Call("update", "leases", "200", 30.0))
        moments.append(selector.moment())
        runtime._saw_call(Call("create", "pods", "201", 30.0))
        moments.append(selector.moment())

    monkeypatch.setattr(main, "_lead", lead)
    settings = Settings(health=f"http://127.0.0.1:{free_port()}/healthz", metrics_port=0)
    await main.operate(settings, selector)
    assert moments == [0, 0, 0, LONGEST]
