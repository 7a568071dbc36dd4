"""A way to the API server that can be made hard: refusals, delays, errors. It counts requests."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from tests.integration.relay import Relay, between

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer

    Trouble = Callable[[], Awaitable[web.Response | None]]

RETRY_AFTER = 2
"""Seconds that a busy server asks for."""
LATE = 2.0
"""Seconds by which a slow server's answers are late."""
_FAILING = 0.1
_TLS_END = 0.25
_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding"}


async def easy() -> web.Response | None:
    """Pass the request on."""
    return None


async def busy() -> web.Response | None:
    """Refuse it as a server does that has too many."""
    return web.Response(status=429, headers={"Retry-After": str(RETRY_AFTER)})


async def slow() -> web.Response | None:
    """Pass it on late."""
    await asyncio.sleep(LATE)
    return None


async def unreliable() -> web.Response | None:
    """Fail one request in ten."""
    failed = random.random() < _FAILING  # noqa: S311 - not a secret
    return web.Response(status=500, text="etcd: request timed out") if failed else None


class Way(Relay):
    """A reverse proxy on loopback, without TLS towards its client."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        """How many requests came since it was last made hard or easy, by method."""
        self._server = server
        self._trouble: Trouble = easy

    def make(self, trouble: Trouble) -> None:
        """Do this with every request that comes from now on."""
        self.asked = Counter()
        self._trouble = trouble

    async def _serve(self, ready: threading.Event) -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        trust = ssl.create_default_context(cafile=str(self._server.ca))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        runner = web.AppRunner(app, shutdown_timeout=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._to:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            ready.set()
            await self._ended.wait()
            await runner.cleanup()
        # aiohttp ends connections with TLS in the background.
        await asyncio.sleep(_TLS_END)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.method] += 1
        if (trouble := await self._trouble()) is not None:
            return trouble
        headers = {key: value for key, value in request.headers.items() if key != "Host"}
        async with self._to.request(
            request.method,
            f"{self._server.url}{request.path_qs}",
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


@contextmanager
def leading(server: ApiServer, kubeconfig: Path) -> Iterator[Way]:
    """Lead whoever uses this kubeconfig, which is changed, over a way for the block."""
    way = Way(server)
    with between(way, kubeconfig, kubeconfig):
        yield way
