"""The way from one client to the API server: it notes what is written, and can be blocked."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from tests.integration.relay import Relay, between

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer

# A request begins a piece of its connection: clients wait for an answer before they send another.
_WRITE = re.compile(rb"(POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")


class Write(NamedTuple):
    """A request that would change something."""

    method: str
    path: str


class Wire(Relay):
    """A relay on loopback, without TLS towards its client."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__()
        self.writes: list[Write] = []
        """What the client has sent, in its order."""
        self._server = urlsplit(server.url)
        self._trust = ssl.create_default_context(cafile=str(server.ca))
        self._open = asyncio.Event()
        self._open.set()

    def block(self) -> None:
        """Let nothing pass in either direction, and tell nobody."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def unblock(self) -> None:
        """Let everything pass again, what was held up included."""
        self._loop.call_soon_threadsafe(self._open.set)

    async def _serve(self, ready: threading.Event) -> None:
        listening = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*listening.sockets[0].getsockname())
        ready.set()
        await self._ended.wait()
        listening.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sides = [writer]
        try:
            there_reader, there = await asyncio.open_connection(
                self._server.hostname, self._server.port, ssl=self._trust
            )
            sides.append(there)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, there, noting=True))
                group.create_task(self._pump(there_reader, writer))
        except* OSError:
            pass  # one side is gone, and with it the connection
        finally:
            for side in sides:
                side.transport.abort()
            for side in sides:
                with contextlib.suppress(OSError):
                    await side.wait_closed()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, noting: bool = False
    ) -> None:
        while piece := await reader.read(1 << 16):
            if noting and (found := _WRITE.match(piece)):
                self.writes.append(Write(found[1].decode(), found[2].decode()))
            await self._open.wait()
            writer.write(piece)
            await writer.drain()
        raise ConnectionResetError


@contextmanager
def wired(server: ApiServer, kubeconfig: Path) -> Iterator[Wire]:
    """Lay a wire to the server and write the kubeconfig of its client."""
    wire = Wire(server)
    with between(wire, server.kubeconfig, kubeconfig):
        yield wire
