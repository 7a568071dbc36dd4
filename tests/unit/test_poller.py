"""The poller asks real HTTP servers on loopback, and survives what they answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Self

import pytest
from aiohttp import web
from tftraining_operator.api.keys import Role
from tftraining_operator.controller.poller import ProgressPoller
from tftraining_operator.reconcile.store import JobKey

from tests.unit.builders import NOW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tftraining_operator.core.progress import Report

KEY = JobKey("default", "mnist")
OTHER = JobKey("default", "other")
INTERVAL = 0.01


class Chief:
    """A server of /progress that answers what the test says, and a poller that asks it."""

    def __init__(self) -> None:
        self.step = 1
        self.asked = 0
        self.rounds = 0
        self.changed: list[JobKey] = []
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] = self._report
        self.poller = ProgressPoller(self.changed.append, INTERVAL, lambda: NOW)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/progress", self._serve)
        app.router.add_get("/other", self._count)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/progress"
        self.poller.watch(OTHER, {Role.CHIEF: self.url.replace("progress", "other")})
        self._task = asyncio.create_task(self.poller.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        return await self.answer(request)

    async def _count(self, _request: web.Request) -> web.StreamResponse:
        self.rounds += 1
        return web.Response()

    async def _report(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"step": self.step})

    async def asks(self, count: int) -> None:
        """Wait until so many rounds have begun and ended."""
        wanted = self.rounds + count + 1
        await until(lambda: self.rounds >= wanted)

    @property
    def alive(self) -> bool:
        return not self._task.done()

    @property
    def report(self) -> Report | None:
        return self.poller.reports(KEY).get(Role.CHIEF)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - another task's state, without a signal
            await asyncio.sleep(0.002)


async def test_a_report_is_kept_and_told_once_until_it_changes() -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.url})
        await chief.asks(3)
        assert chief.report is not None
        assert chief.report.step == 1
        assert chief.changed == [KEY]
        chief.step = 2
        await chief.asks(2)
        assert chief.report.step == 2
        assert chief.changed == [KEY, KEY]


async def _broken(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\xff\xfe<html>")


async def _nested(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="[" * 60_000)


async def _error(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="Traceback")


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            await response.write(b" " * 64 * 1024)
    return response


async def _elsewhere(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/admin")


async def _hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(_broken, id="no text"),
        pytest.param(_nested, id="brackets without end"),
        pytest.param(_error, id="an error"),
        pytest.param(_endless, id="more than anybody needs"),
        pytest.param(_elsewhere, id="a redirect, which is not followed"),
        pytest.param(_hangs_up, id="nothing"),
    ],
)
async def test_what_is_no_report_changes_nothing_and_stops_nothing(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.url})
        await chief.asks(1)
        good, chief.answer = chief.answer, answer
        await chief.asks(2)
        assert chief.alive
        assert chief.report is not None
        assert chief.report.step == 1
        chief.answer, chief.step = good, 7
        await until(lambda: chief.report is not None and chief.report.step == 7)


async def test_one_pod_that_does_not_answer_keeps_no_other_waiting_for_ever() -> None:
    async with Chief() as chief:
        # Nothing listens on port 1.
        targets = {Role.CHIEF: chief.url, Role.EVALUATOR: "http://127.0.0.1:1/progress"}
        chief.poller.watch(KEY, targets)
        await until(lambda: chief.report is not None)
        assert Role.EVALUATOR not in chief.poller.reports(KEY)


async def test_what_an_earlier_pod_said_is_forgotten() -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.url})
        await until(lambda: chief.report is not None)
        chief.poller.watch(KEY, {Role.CHIEF: chief.url})
        assert chief.report is not None, "the same pod"
        chief.poller.watch(KEY, {Role.CHIEF: chief.url.replace("progress", "other")})
        assert chief.report is None


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(lambda poller: poller.watch(KEY, {}), id="without targets"),
        pytest.param(lambda poller: poller.forget(KEY), id="forgotten"),
    ],
)
async def test_a_job_is_asked_no_longer(stop: Callable[[ProgressPoller], None]) -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.url})
        await until(lambda: chief.report is not None)
        stop(chief.poller)
        await chief.asks(1)
        asked = chief.asked
        await chief.asks(3)
        assert chief.asked == asked
        assert chief.poller.reports(KEY) == {}


async def test_an_answer_that_comes_after_its_pod_is_gone_is_dropped() -> None:
    async with Chief() as chief:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def slow(_request: web.Request) -> web.StreamResponse:
            asked.set()
            await answered.wait()
            return web.Response(text=json.dumps({"step": 9}))

        chief.answer = slow
        chief.poller.watch(KEY, {Role.CHIEF: chief.url})
        await asked.wait()
        chief.poller.watch(KEY, {Role.CHIEF: "http://127.0.0.1:1/progress"})
        answered.set()
        await chief.asks(1)
        assert chief.report is None
        assert chief.changed == []
