"""Where very many jobs wait, what arrives within a moment shares a turn of the event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.controller import main
from tftraining_operator.controller.batching import MANY, MOMENT, BatchingSelector, loop
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


def test_what_few_jobs_wait_for_is_worked_on_at_once(
    selector: BatchingSelector, readable: socket.socket, slept: list[float]
) -> None:
    selector.register(readable, 1)
    selector.waiting = lambda: MANY - 1
    assert len(selector.select(1)) == 1
    assert not slept


def test_where_very_many_wait_it_is_worked_on_with_what_comes_in_a_moment(
    selector: BatchingSelector, readable: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for each in (readable, ours):
            selector.register(each, 1)
        selector.waiting = lambda: MANY

        def sleep(seconds: float) -> None:
            assert seconds == MOMENT
            theirs.send(b"another answer")

        monkeypatch.setattr(time, "sleep", sleep)
        assert {key.fileobj for key, _ in selector.select(1)} == {readable, ours}


def test_other_work_waits_for_nothing(
    selector: BatchingSelector, readable: socket.socket, slept: list[float]
) -> None:
    selector.register(readable, 1)
    selector.waiting = lambda: MANY
    assert len(selector.select(0)) == 1, "the loop has callbacks to run"
    assert not slept


def test_a_timer_is_not_late_where_nothing_arrives(slept: list[float]) -> None:
    selector = BatchingSelector()
    selector.waiting = lambda: MANY

    async def scene() -> float:
        began = time.monotonic()
        await asyncio.sleep(0.01)
        return time.monotonic() - began

    with asyncio.Runner(loop_factory=lambda: loop(selector)) as runner:
        assert runner.run(scene()) >= 0.01
    assert not slept


async def test_jobs_that_wait_for_the_operators_passes_are_those_that_count(
    monkeypatch: pytest.MonkeyPatch, selector: BatchingSelector
) -> None:
    async def work(_key: JobKey) -> float | None:
        return None

    counted: list[int] = []

    async def lead(_settings: object, _leads: object, runtime: Runtime, _stop: object) -> None:
        counted.append(selector.waiting())
        queue = runtime._queue = WorkQueue(work, workers=1)
        for name in ("a", "b"):
            queue.add(JobKey("default", name))
        counted.append(selector.waiting())

    monkeypatch.setattr(main, "_lead", lead)
    settings = Settings(health=f"http://127.0.0.1:{free_port()}/healthz", metrics_port=0)
    await main.operate(settings, selector)
    assert counted == [0, 2]
