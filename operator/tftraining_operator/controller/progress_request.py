"""Asks one pod for its progress, and takes no more from it than a report can be long.

Whoever wrote the pod's image answers: with anything, without end, or never. HTTP clients bound the
length of headers and bodies, but not the number of informational responses before them, nor what
comes unasked over a connection that is kept. So each request has a connection of its own, of which
a bounded number of bytes is read and then parsed. Called by poller.
"""

import asyncio
import http.client
import io
import re
import socket
from typing import cast
from urllib.parse import SplitResult, urlsplit

MAX_BODY = 64 * 1024
"""Bytes: a longer body is no report."""
_MAX_RECEIVED = MAX_BODY + 16 * 1024
"""With the sizes of chunks."""
_PIECE = 16 * 1024
_MAX_HEAD = 2 * 1024
"""Bytes of status and headers: the standard library takes seconds for one header of 64 KiB."""
_FINAL = re.compile(rb"HTTP/1\.[01] [2-9]")


class BadAnswerError(Exception):
    """What came is no HTTP response; the text says why."""


async def ask(url: str) -> tuple[int, bytes | None]:
    """Return status and body of the answer to GET; no body if it is longer than MAX_BODY.

    No redirect is followed and no credentials are sent. Raises OSError and BadAnswerError; the
    caller limits the time.
    """
    address = urlsplit(url)
    host = address.hostname or ""
    # Without a stream: each leaves a cycle of garbage, thousands of which take 50 ms to collect.
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as connection:
        connection.settimeout(0)  # it does not block
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (host, address.port))
        await loop.sock_sendall(connection, _request(address))
        return _parsed(await _read(connection))


def _request(address: SplitResult) -> bytes:
    lines = (
        f"GET {address.path} HTTP/1.1",
        f"Host: {address.netloc}",
        "Accept: application/json",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read(connection: socket.socket) -> bytes:
    """Read until the pod closes the connection or has sent more than a report can be long."""
    loop, received = asyncio.get_running_loop(), bytearray()
    while len(received) <= _MAX_RECEIVED:
        piece = await loop.sock_recv(connection, _PIECE)
        if not piece:
            break
        received += piece
    return bytes(received)


def _parsed(received: bytes) -> tuple[int, bytes | None]:
    # Behind an informational response there would be further headers.
    if _FINAL.match(received) is None:
        raise BadAnswerError(f"it begins with {received[:20]!r}")
    head, _, _ = received.partition(b"\r\n\r\n")
    if len(head) > _MAX_HEAD:
        raise BadAnswerError(f"its headers are longer than {_MAX_HEAD} bytes")
    response = http.client.HTTPResponse(cast("socket.socket", _Received(received)), method="GET")
    try:
        response.begin()
        body = response.read(MAX_BODY + 1)
    except (http.client.HTTPException, ValueError) as error:
        raise BadAnswerError(str(error) or type(error).__name__) from error
    return response.status, body if len(body) <= MAX_BODY else None


class _Received(io.BytesIO):
    """Bytes that were read, as the socket of which the standard library reads a response."""

    def makefile(self, _mode: str) -> "_Received":
        return self
