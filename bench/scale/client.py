"""A bare concurrent client: objects as fast as the API server takes them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.apiserver import ApiServer

_Object = Mapping[str, Any]

AT_ONCE = 16
AGENT = "bench-scale"


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

    async def delete(self, *collections: str) -> None:
        """Delete all objects of collections; what they own goes when the collector finds it."""
        await asyncio.gather(
            *(
                self._send("DELETE", path, {"propagationPolicy": "Background"})
                for path in collections
            )
        )

    async def _send(self, method: str, path: str, body: _Object) -> None:
        async with self.session.request(method, f"{self.url}{path}", json=body) as answer:
            text = await answer.text()
            if not answer.ok:
                raise RuntimeError(f"{method} {path}: {answer.status}: {text[:500]}")


@asynccontextmanager
async def connected(server: ApiServer) -> AsyncIterator[Client]:
    """Connect as the administrator."""
    tls = ssl.create_default_context(cafile=str(server.ca))
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {server.token}", "User-Agent": AGENT},
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        timeout=aiohttp.ClientTimeout(total=120),
    ) as session:
        yield Client(session, server.url)
