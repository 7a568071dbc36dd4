"""Serves liveness and readiness for the kubelet's probes, on the leader and on a standby."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web

from tftraining_operator.controller.listening import listening

Check = Callable[[], str | None]
"""Returns the problem, None if there is none."""

READY_PATH = "/readyz"


@asynccontextmanager
async def served(url: str, *, alive: Check, ready: Check) -> AsyncIterator[None]:
    """Serve liveness at `url` and readiness beside it, at /readyz. Raises OSError."""
    parts = urlsplit(url)
    app = web.Application()
    app.add_routes(
        [web.get(parts.path or "/", _answering(alive)), web.get(READY_PATH, _answering(ready))]
    )
    async with listening(app, parts.hostname, parts.port):
        yield


def _answering(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_request: web.Request) -> web.Response:
        problem = check()
        status = 200 if problem is None else 503
        response = web.Response(status=status, text=f"{problem or 'ok'}\n")
        # kopf waits at its end for every connection that was opened since its start.
        response.force_close()
        return response

    return answer
