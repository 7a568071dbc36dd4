"""Chiefs that lie, flood, redirect or hang: raw servers on loopback that the real poller asks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import socket
import threading
import time
from asyncio.selector_events import BaseSelectorEventLoop
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tftraining_operator.api.keys import Role
from tftraining_operator.controller import poller as pollers
from tftraining_operator.controller import progress_request
from tftraining_operator.controller.poller import PollResult, ProgressPoller
from tftraining_operator.controller.progress_request import MAX_BODY, BadAnswerError
from tftraining_operator.core.progress import progress_of
from tftraining_operator.reconcile.protocols import Target
from tftraining_operator.reconcile.store import JobKey

from tests.unit.builders import NOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tftraining_operator.core.progress import Report

    Pieces = Callable[[], AsyncIterator[bytes]]

KEY = JobKey("default", "hostile")
HONEST = JobKey("default", "honest")
INTERVAL = 0.01
TIMEOUT = 0.3
TAKEN = 2 * 1024 * 1024
"""Bytes of one answer: what is read of it at most, and what the kernel's buffers hold beside."""

REPORT = b'{"step": 7}'
OK = b"HTTP/1.1 200 OK\r\n"
GOOD = OK + b"Content-Length: %d\r\n\r\n" % len(REPORT) + REPORT


class Server:
    """A server on loopback that writes pieces to whoever asks, and notes what came of it."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self.requests: list[bytes] = []
        self.taken: list[int] = []
        """Bytes of each answer that the client, or a buffer on the way, took."""
        self.seconds: list[float] = []
        """How long each client stayed."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Server]:
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(asyncio.create_task(self._answer(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/progress"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Small, so that it does not hide what the client does not take.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        began, taken = time.monotonic(), 0
        try:
            with contextlib.suppress(ConnectionError):
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                async for piece in self._pieces():
                    if reader.at_eof():
                        break
                    writer.write(piece)
                    await writer.drain()
                    taken += len(piece)
                writer.write_eof()
                await reader.read()
            self.taken.append(taken)
            self.seconds.append(time.monotonic() - began)
        finally:
            writer.transport.abort()


class Polled:
    """A poller, and what came of each request to the one job that is watched."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self.results: list[PollResult] = []
        self.poller = ProgressPoller(
            lambda _key: None,
            interval,
            lambda: NOW,
            progressed=lambda _key: None,
            observe=self.results.append,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Polled]:
        task = asyncio.create_task(self.poller.run())
        try:
            yield self
            assert not task.done(), "nothing ends the poller"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def watch(self, server: Server, key: JobKey = KEY) -> None:
        self.poller.watch(key, {Role.CHIEF: Target(f"uid-of-{key.name}", server.url)})

    def report(self, key: JobKey = KEY) -> Report | None:
        return self.poller.reports(key).get(Role.CHIEF)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - another task's state, without a signal
            await asyncio.sleep(0.002)


def once(*pieces: bytes) -> Pieces:
    """Write some pieces, then close the connection."""

    async def written() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return written


def for_ever(*pieces: bytes) -> Pieces:
    """Write the last piece again and again, after all others."""

    async def written() -> AsyncIterator[bytes]:
        for piece in itertools.chain(pieces, itertools.repeat(pieces[-1])):
            yield piece

    return written


def dripping(head: bytes, piece: bytes) -> Pieces:
    """Write one piece after the other without end, slowly enough to be always about to go on."""

    async def written() -> AsyncIterator[bytes]:
        yield head
        while True:
            await asyncio.sleep(TIMEOUT / 20)
            yield piece

    return written


@pytest.mark.parametrize(
    ("pieces", "result"),
    [
        pytest.param(
            for_ever(OK + b"\r\n", b" " * 65536), PollResult.INVALID_REPORT, id="a body without end"
        ),
        pytest.param(
            for_ever(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 10_000),
            PollResult.CONNECTION_FAILED,
            id="chunks of one byte without end",
        ),
        pytest.param(
            for_ever(OK, b"X-More: of the same\r\n" * 3000),
            PollResult.CONNECTION_FAILED,
            id="headers without end",
        ),
        pytest.param(
            for_ever(OK + b"X-Long: ", b"x" * 65536),
            PollResult.CONNECTION_FAILED,
            id="one header without end",
        ),
        pytest.param(
            for_ever(b"HTTP/1.1 200 ", b"x" * 65536),
            PollResult.CONNECTION_FAILED,
            id="a status line without end",
        ),
        pytest.param(
            for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 3000),
            PollResult.CONNECTION_FAILED,
            id="informational responses without end",
        ),
        pytest.param(
            once(OK + b'Content-Type: multipart/x;"' + b";" * 60_000 + b"\r\n\r\n{}"),
            PollResult.CONNECTION_FAILED,
            id="a header that takes seconds to look through",
        ),
        pytest.param(
            once(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"X: " + b";" * 60_000 + b"\r\n\r\n{}"),
            PollResult.CONNECTION_FAILED,
            id="the same behind an informational response",
        ),
        pytest.param(
            for_ever(GOOD, GOOD * 1000), PollResult.SUCCESS, id="responses to nobody's requests"
        ),
    ],
)
async def test_of_a_flood_a_bounded_part_is_taken(pieces: Pieces, result: PollResult) -> None:
    began = time.process_time()
    async with Server(pieces).serving() as server, Polled().running() as polled:
        polled.watch(server)
        await until(lambda: len(polled.results) >= 3)
        await until(lambda: len(server.taken) >= 3)
        assert set(polled.results) == {result}
        assert time.process_time() - began < 2.0
    assert max(server.taken) < TAKEN


async def test_of_what_comes_between_two_requests_nothing_is_taken() -> None:
    async def written() -> AsyncIterator[bytes]:
        yield GOOD
        await asyncio.sleep(0.1)
        while True:
            yield GOOD * 1000

    async with Server(written).serving() as server, Polled(interval=1.0).running() as polled:
        polled.watch(server)
        await until(lambda: len(polled.results) >= 2)
        assert set(polled.results) == {PollResult.SUCCESS}
    assert max(server.taken) < TAKEN


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(dripping(b"", b""), id="nothing"),
        pytest.param(dripping(b"HTTP/1.1 2", b"0"), id="a status line, drop by drop"),
        pytest.param(dripping(OK, b"X: y\r\n"), id="headers, drop by drop"),
        pytest.param(dripping(OK + b"\r\n", b" "), id="a body, drop by drop"),
        pytest.param(
            dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), id="to be continued, drop by drop"
        ),
        pytest.param(dripping(GOOD, b""), id="a report, and no end of it"),
    ],
)
async def test_a_chief_that_takes_its_time_gets_none(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pollers, "_TIMEOUT", TIMEOUT)
    async with Server(pieces).serving() as server, Polled().running() as polled:
        polled.watch(server)
        await until(lambda: len(polled.results) >= 2)
        await until(lambda: len(server.seconds) >= 2)
        assert set(polled.results) == {PollResult.TIMEOUT}
    assert max(server.seconds) < 5 * TIMEOUT


async def test_an_honest_chief_is_heard_beside_hostile_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pollers, "_TIMEOUT", TIMEOUT)
    async with (
        Server(for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 3000)).serving() as flooding,
        Server(dripping(OK, b"X: y\r\n")).serving() as dripping_server,
        Server(once(GOOD)).serving() as honest,
        Polled().running() as polled,
    ):
        for number in range(5):
            polled.watch(flooding, JobKey("evil", f"flooding-{number}"))
            polled.watch(dripping_server, JobKey("evil", f"dripping-{number}"))
        polled.watch(honest, HONEST)
        await until(lambda: len(honest.requests) >= 20)
        assert polled.report(HONEST) is not None


def test_a_request_leaves_no_garbage_to_look_for() -> None:
    """In an event loop of its own, as a server of asyncio's leaves some."""
    times = 20

    def answer() -> None:
        for _ in range(times):
            connection, _ = listening.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(GOOD)

    async def ask() -> int:
        gc.collect()
        gc.disable()
        for _ in range(times):
            await progress_request.ask(f"http://127.0.0.1:{listening.getsockname()[1]}/progress")
        return gc.collect()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=answer)
        server.start()
        try:
            found = asyncio.run(ask())
        finally:
            gc.enable()
            server.join()
    assert found < times


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """Where connections were opened to; none leaves the loopback device."""
    found: set[tuple[str, int]] = set()
    connect = BaseSelectorEventLoop.sock_connect

    async def sock_connect(
        loop: BaseSelectorEventLoop, connection: socket.socket, address: tuple[str, int]
    ) -> None:
        found.add(address)
        assert address[0] == "127.0.0.1"
        await connect(loop, connection, address)

    monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", sock_connect)
    return found


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        pytest.param("http://127.0.0.1:{other}/progress", id="another pod"),
        pytest.param("//127.0.0.1:{other}/progress", id="another pod, without a scheme"),
        pytest.param("https://kubernetes.default.svc/api/v1/secrets", id="the API server"),
        pytest.param("http://169.254.169.254/latest/meta-data/", id="the cloud's metadata"),
        pytest.param("http://[::1]:8081/metrics", id="the operator itself"),
        pytest.param("file:///var/run/secrets/kubernetes.io/serviceaccount/token", id="a file"),
    ],
)
async def test_no_redirect_is_followed(
    status: int, location: str, dialled: set[tuple[str, int]]
) -> None:
    async with Server(once(GOOD)).serving() as other, Polled().running() as polled:
        where = location.format(other=other.port)
        head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {where}\r\nRefresh: 0; url={where}\r\n"
        async with Server(once(f"{head}Content-Length: 0\r\n\r\n".encode())).serving() as server:
            polled.watch(server)
            await until(lambda: len(polled.results) >= 2)
            assert set(polled.results) == {PollResult.HTTP_ERROR}
        assert dialled == {("127.0.0.1", server.port)}
    assert other.requests == []


async def test_a_request_carries_nothing_that_a_chief_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    asks = (
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\n"
        b"Set-Cookie: who=you; Path=/\r\nContent-Length: 0\r\n\r\n"
    )
    async with Server(once(asks)).serving() as server, Polled().running() as polled:
        polled.watch(server)
        await until(lambda: len(server.requests) >= 3)
    request = (
        f"GET /progress HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        "Accept: application/json\r\nConnection: close\r\n\r\n"
    )
    assert set(server.requests) == {request.encode()}


def answered(body: bytes, *headers: bytes) -> bytes:
    lines = (b"Content-Length: %d" % len(body), *headers)
    return OK + b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(answered(b'{"step": -1}'), id="a negative step"),
        pytest.param(answered(b'{"step": NaN}'), id="a step that is no number"),
        pytest.param(answered(b'{"step": 1e400}'), id="an infinite step"),
        pytest.param(answered(b'{"step": ' + b"9" * 5000 + b"}"), id="a step of 5000 digits"),
        pytest.param(answered(b'{"step": 8, "totalSteps": -8}'), id="fewer steps than none"),
        pytest.param(answered(b'{"step": 8, "secondsSinceStep": -60}'), id="a step yet to come"),
        pytest.param(
            answered(json.dumps({"step": 8, "activity": "x" * 60_000}).encode()), id="a huge word"
        ),
        pytest.param(answered(b'{"step": 8, "metrics": []}'), id="a list for an object"),
        pytest.param(answered(b"{" + b" " * MAX_BODY + b"}"), id="a byte more than may be"),
        pytest.param(answered(b"\x00" * 100), id="zeros"),
        pytest.param(
            answered(b"\x1f\x8b\x08\x00" + b"\x00" * 60, b"Content-Encoding: gzip"), id="an archive"
        ),
        pytest.param(OK + b"Content-Length: 1000\r\n\r\n" + REPORT[:-1], id="half a report"),
    ],
)
async def test_a_lie_leaves_the_last_report_as_it_was(lie: bytes) -> None:
    said = [GOOD]

    async def written() -> AsyncIterator[bytes]:
        yield said[-1]

    async with Server(written).serving() as server, Polled().running() as polled:
        polled.watch(server)
        await until(polled.report)
        said.append(lie)
        await until(lambda: polled.results.count(PollResult.INVALID_REPORT) >= 2)
        report = polled.report()
        assert report is not None
        assert report.step == 7


async def test_what_an_absurd_report_puts_into_the_status_is_bounded() -> None:
    absurd = {
        "step": 2**63 - 1,
        "totalSteps": 1,
        "stepsPerSecond": 1e308,
        "metrics": {f"{number:04}{'x' * 40}": 1e-308 for number in range(800)},
    }
    text = json.dumps(absurd).encode()
    assert len(text) < MAX_BODY
    async with Server(once(answered(text))).serving() as server, Polled().running() as polled:
        polled.watch(server)
        await until(polled.report)
        report = polled.report()
    assert report is not None
    status = progress_of(report, None, NOW)
    assert (status.percent, status.eta_seconds) == (100, 0)
    assert len(status.model_dump_json()) < 4000


def _responses() -> Iterator[st.SearchStrategy[bytes]]:
    """Yield what a response may begin with, each followed by anything."""
    for head in (b"", b"HTTP/1.1 ", OK, OK + b"Content-Length: ", OK + b"Content-Type: "):
        yield st.binary(max_size=200).map(head.__add__)
    chunked = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    yield st.text("0123456789abcdefx-+;\r\n ", max_size=60).map(
        lambda text: chunked + text.encode()
    )


@given(st.one_of(*_responses()))
def test_whatever_comes_is_an_answer_or_a_bad_one(received: bytes) -> None:
    with contextlib.suppress(BadAnswerError):
        status, body = progress_request._parsed(received)
        assert 100 <= status <= 999
        assert body is None or len(body) <= MAX_BODY
