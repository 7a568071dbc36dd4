"""The poller asks real HTTP servers on loopback, and survives what they answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Self

import pytest
from aiohttp import web
from tftraining_operator.api.keys import Role
from tftraining_operator.controller import poller
from tftraining_operator.controller.poller import PollResult, ProgressPoller
from tftraining_operator.core.progress import FRESH
from tftraining_operator.reconcile.protocols import Target
from tftraining_operator.reconcile.store import JobKey

from tests.unit.builders import NOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tftraining_operator.core.progress import Report

KEY = JobKey("default", "mnist")
OTHER = JobKey("default", "other")
INTERVAL = 0.01
NOBODY = Target("nobody", "http://127.0.0.1:1/progress")
"""Nothing listens on port 1."""


class Chief:
    """A server of /progress that answers what the test says, and a poller that asks it."""

    def __init__(self) -> None:
        self.step = 1
        self.asked = 0
        self.asked_other = 0
        self.changed: list[JobKey] = []
        self.progressed: list[JobKey] = []
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] = self._report
        self.now = NOW
        self.monotonic = 0.0
        self.results: list[PollResult] = []
        self.poller = ProgressPoller(
            self.changed.append,
            INTERVAL,
            lambda: self.now,
            progressed=self.progressed.append,
            monotonic=lambda: self.monotonic,
            observe=self.results.append,
        )

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/progress", self._serve)
        app.router.add_get("/other", self._count)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base = f"http://{host}:{port}"
        self.target = Target("uid-1", f"{self.base}/progress")
        self.poller.watch(OTHER, {Role.CHIEF: Target("uid-other", f"{self.base}/other")})
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
        self.asked_other += 1
        return web.Response()

    async def _report(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"step": self.step})

    async def asks(self, count: int) -> None:
        """Wait until so many requests have begun and ended."""
        wanted = self.asked + count + 1
        await until(lambda: self.asked >= wanted)

    async def asks_other(self, count: int) -> None:
        """Wait until the other job's chief was asked so often."""
        wanted = self.asked_other + count
        await until(lambda: self.asked_other >= wanted)

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
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await chief.asks(3)
        assert chief.report is not None
        assert chief.report.step == 1
        assert chief.progressed == [KEY]
        chief.step = 2
        await chief.asks(2)
        assert chief.report.step == 2
        assert (chief.changed, chief.progressed) == ([], [KEY, KEY])


@pytest.mark.parametrize(
    ("news", "urgent"),
    [
        pytest.param({"step": 2, "stepsPerSecond": 3.0, "metrics": {"loss": 1}}, False, id="steps"),
        pytest.param({"step": 10}, True, id="the last step"),
        pytest.param({"activity": "checkpoint"}, True, id="what the chief does"),
        pytest.param({"waitingFor": ["worker-1"]}, True, id="what it waits for"),
        pytest.param(
            {"step": 2, "unreachable": [{"task": "ps-0", "seconds": 1}]}, True, id="a lost server"
        ),
        pytest.param({"resumedStep": 1}, True, id="another start"),
        pytest.param({"secondsSinceStep": 60.0}, True, id="no step for too long"),
        pytest.param({"step": 2, "secondsSinceStep": 60.0}, True, id="a step, but long ago"),
        pytest.param({"model": {"step": 1, "path": "/m", "formats": []}}, True, id="a model"),
    ],
)
async def test_only_steps_can_wait(news: dict[str, object], *, urgent: bool) -> None:
    told: dict[str, object] = {"step": 1, "totalSteps": 10}

    async def report(_request: web.Request) -> web.StreamResponse:
        return web.json_response(told)

    async with Chief() as chief:
        chief.answer = report
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await chief.asks(2)
        told |= news
        await chief.asks(3)
        assert len(chief.changed) == urgent
        assert len(chief.progressed) == 2 - urgent


@pytest.mark.parametrize(
    ("limit", "ages"),
    [
        pytest.param(None, ((99.0, 0), (100.0, 1), (160.0, 1), (1.0, 2)), id="silence"),
        pytest.param(30, ((29.0, 0), (30.0, 1), (99.0, 1), (100.0, 2)), id="the job's timeout"),
    ],
)
async def test_a_stall_is_told_once_and_its_end_too(
    limit: int | None, ages: tuple[tuple[float, int], ...]
) -> None:
    told: dict[str, object] = {"step": 1, "totalSteps": 10, "stepsPerSecond": 0.1}

    async def report(_request: web.Request) -> web.StreamResponse:
        return web.json_response(told)

    async with Chief() as chief:
        chief.answer = report
        chief.poller.watch(KEY, {Role.CHIEF: replace(chief.target, stall_timeout=limit)})
        for age, told_so_often in ages:
            told["secondsSinceStep"] = age
            await chief.asks(3)
            assert len(chief.changed) == told_so_often, age
        assert len(chief.progressed) == 1


@pytest.mark.parametrize(
    "news",
    [
        pytest.param({"unreachable": [{"task": "ps-0", "seconds": 1}]}, id="a server is lost"),
        pytest.param({"secondsSinceStep": 60}, id="no step is made"),
    ],
)
async def test_a_first_report_can_wait_unless(news: dict[str, object]) -> None:
    told: dict[str, object] = {"step": 5}

    async def report(_request: web.Request) -> web.StreamResponse:
        return web.json_response(told)

    async with Chief() as chief:
        chief.answer = report
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await chief.asks(2)
        assert (chief.changed, chief.progressed) == ([], [KEY])
        told |= news
        chief.poller.watch(KEY, {Role.CHIEF: Target("uid-2", chief.target.url)})
        await chief.asks(2)
        assert (chief.changed, chief.progressed) == ([KEY], [KEY])


async def _broken(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\xff\xfe<html>")


async def _nested(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="[" * 60_000)


async def _error(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="Traceback")


async def _error_with_a_report(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"step": 99}, status=500)


async def _created(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"step": 99}, status=201)


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
    ("answer", "result"),
    [
        pytest.param(_broken, PollResult.INVALID_REPORT, id="no text"),
        pytest.param(_nested, PollResult.INVALID_REPORT, id="brackets without end"),
        pytest.param(_error, PollResult.HTTP_ERROR, id="an error"),
        pytest.param(
            _error_with_a_report, PollResult.HTTP_ERROR, id="an error that carries a report"
        ),
        pytest.param(_created, PollResult.HTTP_ERROR, id="a success that is not 200"),
        pytest.param(_endless, PollResult.INVALID_REPORT, id="more than anybody needs"),
        pytest.param(_elsewhere, PollResult.HTTP_ERROR, id="a redirect, which is not followed"),
        pytest.param(_hangs_up, PollResult.CONNECTION_FAILED, id="nothing"),
    ],
)
async def test_what_is_no_report_changes_nothing_and_stops_nothing(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], result: PollResult
) -> None:
    async with Chief() as chief:
        chief.poller.forget(OTHER)
        chief.results.clear()
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await chief.asks(1)
        good, chief.answer = chief.answer, answer
        await chief.asks(2)
        assert chief.alive
        assert set(chief.results) == {PollResult.SUCCESS, result}
        assert chief.report is not None
        assert chief.report.step == 1
        chief.answer, chief.step = good, 7
        await until(lambda: chief.report is not None and chief.report.step == 7)


@contextlib.asynccontextmanager
async def a_silent_server() -> AsyncIterator[str]:
    """A server that accepts connections and answers nothing."""
    served = []

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.create_task(read(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/progress"
    await asyncio.gather(*served, return_exceptions=True)


async def test_pods_that_do_not_answer_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "_MAX_REQUESTS", 4)
    monkeypatch.setattr(poller, "_MAX_RETRIES", 4)
    monkeypatch.setattr(poller, "_TIMEOUT", 0.2)
    async with a_silent_server() as url, Chief() as chief:
        for index in range(20):
            job = JobKey("default", f"job-{index}")
            chief.poller.watch(job, {Role.CHIEF: Target(f"uid-{index}", url)})
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        # In rounds, or in one queue with them, this would take 6 s.
        await chief.asks(5)


async def test_a_pod_that_refuses_connections_has_no_report() -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.target, Role.EVALUATOR: NOBODY})
        await until(lambda: chief.report is not None)
        assert Role.EVALUATOR not in chief.poller.reports(KEY)


async def test_a_report_names_its_pod_whatever_the_document_says() -> None:
    async with Chief() as chief:

        async def forged(_request: web.Request) -> web.StreamResponse:
            document = {"step": 3, "podUid": "uid-2", "pod_uid": "uid-3", "received": "now"}
            return web.json_response(document)

        chief.answer = forged
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await until(lambda: chief.report is not None)
        assert chief.report is not None
        assert chief.report.pod_uid == "uid-1"
        assert chief.report.received == NOW


async def test_another_pod_at_the_same_address_has_not_reported_yet() -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await until(lambda: chief.report is not None)
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        assert chief.report is not None, "the same pod"
        chief.poller.watch(KEY, {Role.CHIEF: Target("uid-2", chief.target.url)})
        assert chief.report is None
        await until(lambda: chief.report is not None)
        assert chief.report.pod_uid == "uid-2"


async def test_the_age_of_a_report_does_not_depend_on_a_clock_that_is_set() -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await until(lambda: chief.report is not None)
        chief.answer = _error
        await chief.asks(1)
        chief.now, chief.monotonic = NOW - timedelta(hours=1), 7.0
        assert chief.report is not None
        assert chief.report.received == chief.now - timedelta(seconds=7)


async def test_ages_count_from_the_last_report_or_from_the_first_request() -> None:
    async with Chief() as chief:
        chief.poller.forget(OTHER)
        chief.poller.watch(KEY, {Role.CHIEF: chief.target, Role.EVALUATOR: NOBODY})
        chief.monotonic = 5.0
        await until(lambda: sorted(chief.poller.ages()) == [0.0, 5.0])
        chief.answer = _error
        await chief.asks(1)
        chief.monotonic = 7.0
        assert sorted(chief.poller.ages()) == [2.0, 7.0]


async def test_after_a_silence_even_the_same_report_is_announced() -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await until(lambda: chief.progressed == [KEY])
        good, chief.answer = chief.answer, _error
        await chief.asks(2)
        assert chief.changed == []
        chief.answer = good
        await until(lambda: chief.changed == [KEY])
        await chief.asks(2)
        assert (chief.changed, chief.progressed) == ([KEY], [KEY])


async def test_a_report_that_counts_no_longer_is_announced_once() -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.target, Role.EVALUATOR: NOBODY})
        await until(lambda: chief.report is not None)
        for silences in (1, 2):
            good, chief.answer = chief.answer, _error
            chief.monotonic += FRESH.total_seconds()
            await chief.asks(2)
            assert len(chief.changed) == 2 * silences - 2, "it still counts"
            chief.monotonic += 0.5
            await chief.asks(3)
            assert chief.changed == [KEY] * (2 * silences - 1)
            chief.answer = good
            await until(lambda told=2 * silences: len(chief.changed) == told)


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(lambda poller: poller.watch(KEY, {}), id="without targets"),
        pytest.param(lambda poller: poller.forget(KEY), id="forgotten"),
    ],
)
async def test_a_job_is_asked_no_longer(stop: Callable[[ProgressPoller], None]) -> None:
    async with Chief() as chief:
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await until(lambda: chief.report is not None)
        stop(chief.poller)
        await chief.asks_other(2)
        asked = chief.asked
        await chief.asks_other(3)
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
        chief.poller.watch(KEY, {Role.CHIEF: chief.target})
        await asked.wait()
        chief.poller.watch(KEY, {Role.CHIEF: NOBODY})
        answered.set()
        await chief.asks_other(2)
        assert chief.report is None
        assert chief.changed == []
