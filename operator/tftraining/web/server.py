"""Answers a browser: pages, the style sheet and the script. GET only, no cookies, no other assets.

The script asks for the page that is shown every few seconds, and replaces what has changed.
"""

import asyncio
import hashlib
import ipaddress
import signal
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tftraining.errors import InputError
from tftraining.web.job_page import Details, job_page, no_job_page
from tftraining.web.overview import overview
from tftraining.web.source import Source

_STATIC = Path(__file__).with_name("static")
_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Kept to be compared with the next one, and by this browser alone.
    "Cache-Control": "private, no-cache",
}


def application(source: Source, *, path: str = "", hosts: Collection[str] = ()) -> web.Application:
    """Return the application, which serves all pages below a path.

    It answers only requests to an address, to localhost or to one of `hosts`: a site elsewhere
    whose name is made to lead here (DNS rebinding) could read the jobs otherwise.
    """
    pages = _Pages(source)
    prefix = f"/{path}" if path else ""
    app = web.Application(middlewares=[_guard(hosts)])
    get = {
        "/": pages.overview,
        "/namespaces/{namespace}": pages.overview,
        "/jobs/{namespace}/{name}": pages.job,
        **{f"/static/{name}": _asset(name) for name in _TYPES},
    }
    app.add_routes([web.get(prefix + where, answer) for where, answer in get.items()])
    app.add_routes(
        [web.get(f"{prefix}/healthz", pages.alive), web.get(f"{prefix}/readyz", pages.ready)]
    )

    async def watching(_app: web.Application) -> AsyncIterator[None]:
        async with source.watching():
            yield

    app.cleanup_ctx.append(watching)
    return app


class _Pages:
    def __init__(self, source: Source) -> None:
        self._source = source

    async def overview(self, request: web.Request) -> web.Response:
        namespace = request.match_info.get("namespace")
        source = self._source
        jobs, problem = source.jobs(), source.problem
        text = overview(jobs, datetime.now(UTC), namespace=namespace, problem=problem)
        return _page(request, text)

    async def job(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        found = self._source.find(namespace, name)
        if found is None:
            problem = self._source.problem_in(namespace)
            return _page(request, no_job_page(namespace, name, problem=problem), status=404)
        job, losses = found
        details: Details = await self._source.details(job)
        problem = self._source.problem
        return _page(request, job_page(job, details, losses, datetime.now(UTC), problem=problem))

    async def alive(self, _request: web.Request) -> web.Response:
        alive = self._source.alive
        return web.Response(status=200 if alive else 503, text="ok\n" if alive else "no watch\n")

    async def ready(self, _request: web.Request) -> web.Response:
        ready = self._source.ready
        return web.Response(status=200 if ready else 503, text=f"{self._source.problem or 'ok'}\n")


def _page(request: web.Request, text: str, *, status: int = 200) -> web.Response:
    body = text.encode()
    tag = hashlib.blake2b(body, digest_size=16).hexdigest()
    response = web.Response(body=body, status=status, content_type="text/html", charset="utf-8")
    response.etag = tag
    known = request.if_none_match or ()
    if status == web.HTTPOk.status_code and tag in {each.value for each in known}:
        response = web.Response(status=304)
        response.etag = tag
    return response


def _asset(name: str) -> Handler:
    body = (_STATIC / name).read_bytes()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=_TYPES[name], charset="utf-8")

    return answer


def _guard(hosts: Collection[str]) -> Middleware:
    known = {"localhost", *(host.lower() for host in hosts)}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not _is_known(request.host, known):
            response: web.StreamResponse = web.Response(
                status=421,
                text="this host name is not known: add it to the chart's web.hosts\n",
            )
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                error.headers.update(HEADERS)
                raise
        response.headers.update(HEADERS)
        return response

    return guard


def _is_known(host: str, known: Collection[str]) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name.lower().rstrip(".") in known
    return True


@asynccontextmanager
async def served(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve until the block ends; give the port, a free one for 0. Raises InputError."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise InputError(
                f"cannot serve on port {port}: {error.strerror or error}; choose another port"
            ) from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def serve(
    app: web.Application, host: str, port: int, show: Callable[[int], None] = lambda _: None
) -> None:
    """Serve until the process is told to end; `show` is given the port. Raises InputError."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with served(app, host, port) as found:
        show(found)
        await stop.wait()
