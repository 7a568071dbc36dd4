"""Serves the metrics of this process at /metrics of a port of its own, on leader and standby.

The event loop answers, not a thread: what is read at a scrape may not change meanwhile. Only jobs,
of which there may be thousands, are counted before.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client.aiohttp import make_aiohttp_handler

from tftraining_operator.controller.listening import listening
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.controller.settings import SettingsError

METRICS_PATH = "/metrics"

_LAG_SAMPLE_SECONDS = 0.5


@asynccontextmanager
async def exposed(port: int, metrics: Metrics) -> AsyncIterator[None]:
    """Serve the metrics, and measure the event loop; nothing for port 0. Raises SettingsError."""
    if port == 0:
        yield
        return
    app = web.Application()
    app.add_routes([web.get(METRICS_PATH, _answer(metrics))])
    measuring = asyncio.create_task(_measure_lag(metrics))
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(measuring.cancel)
        try:
            await stack.enter_async_context(listening(app, None, port))
        except OSError as error:
            raise SettingsError(
                f"cannot serve metrics on port {port}: {error.strerror or error}; set "
                "TFTRAINING_METRICS_PORT to a free port, or to 0 to serve none"
            ) from error
        yield


def _answer(metrics: Metrics) -> Handler:
    handler = make_aiohttp_handler(metrics.registry)

    async def answer(request: web.Request) -> web.StreamResponse:
        await metrics.count_jobs()
        response = await handler(request)
        # kopf waits at its end for every connection that was opened since its start.
        response.force_close()
        return response

    return answer


async def _measure_lag(metrics: Metrics) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SAMPLE_SECONDS
        await asyncio.sleep(_LAG_SAMPLE_SECONDS)
        metrics.saw_lag(max(0.0, loop.time() - due))
