"""Serves an aiohttp application while a block runs. Used by health and metrics_server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def listening(
    app: web.Application, host: str | None, port: int | None
) -> AsyncIterator[None]:
    """Serve `app` at a port of an address, None for all addresses. Raises OSError."""
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
