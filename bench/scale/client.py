"""A bare concurrent client: objects as fast as the API server takes them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from tools.cluster.shell import ClusterError

_Object = Mapping[str, Any]

AT_ONCE = 16
AGENT = "bench-scale"
_ANSWER_SECONDS = 300.0
"""The longest answer is that to the deletion of a whole collection."""
_ATTEMPTS = 30
"""At the deletion of a collection: after a minute an API server ends it, with 504 or no answer."""
_MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


class _LateError(ClusterError):
    """The API server gave up what it was asked for."""


@dataclass(frozen=True, slots=True)
class Client:
    """Connections to an API server."""

    session: aiohttp.ClientSession
    url: str

    async def create(self, objects: Iterable[tuple[str, _Object]]) -> None:
        """Create objects in the collections at their paths, AT_ONCE at a time."""
        left = iter(list(objects))

        async def worker() -> None:
            for path, body in left:
                await self._send("POST", path, body)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))

    async def delete(self, *paths: str, grace: int | None = None) -> None:
        """Delete objects, or all of a collection; what they own goes when the collector finds it.

        `grace` is in seconds; None leaves it to each object.
        """
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await asyncio.gather(*(self._delete(path, options) for path in paths))

    async def patch_status(self, path: str, status: _Object) -> None:
        """Merge into an object's status."""
        await self._send("PATCH", f"{path}/status", {"status": status}, _MERGE_PATCH)

    async def list(self, path: str, selector: str) -> list[dict[str, Any]]:
        """Return the objects of a collection that labels select."""
        query = {"labelSelector": selector}
        async with self.session.get(f"{self.url}{path}", params=query) as answer:
            answer.raise_for_status()
            items: list[dict[str, Any]] = (await answer.json())["items"]
            return items

    async def _delete(self, path: str, options: _Object) -> None:
        for _ in range(_ATTEMPTS):
            try:
                return await self._send("DELETE", path, options)
            except (aiohttp.ServerDisconnectedError, _LateError):
                continue
        raise ClusterError(f"DELETE {path}: the API server did not end it in {_ATTEMPTS} attempts")

    async def _send(
        self, method: str, path: str, body: _Object, headers: Mapping[str, str] | None = None
    ) -> None:
        try:
            async with self.session.request(
                method, f"{self.url}{path}", json=body, headers=headers
            ) as answer:
                text = await answer.text()
        except TimeoutError as error:
            what = f"{method} {path}: no answer from the API server in {_ANSWER_SECONDS:.0f} s"
            raise ClusterError(what) from error
        if not answer.ok:
            late = answer.status == HTTPStatus.GATEWAY_TIMEOUT
            kind = _LateError if late else ClusterError
            raise kind(f"{method} {path}: {answer.status}: {text[:500]}")


@asynccontextmanager
async def connected(url: str, ca: Path, token: str) -> AsyncIterator[Client]:
    """Connect to an API server as the administrator."""
    tls = ssl.create_default_context(cafile=str(ca))
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}", "User-Agent": AGENT},
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS),
    ) as session:
        yield Client(session, url)
