"""A kubelet for the API server: it executes programs of pods on this computer, and has logs.

It serves exec over WebSocket, with the subprotocol v5.channel.k8s.io, as a kubelet does.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer
    from tests.integration.jobs import Namespace

_STDIN, _STDOUT, _STDERR, _ERROR = range(4)
_ROOT = web.AppKey("root", str)


@dataclass(frozen=True, slots=True)
class Node:
    """A node with a kubelet."""

    server: ApiServer
    name: str

    def run(self, space: Namespace, pod: str) -> None:
        """Place a pod on this node and let it run."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.name},
        }
        path = f"/api/v1/namespaces/{space.name}/pods/{pod}/binding"
        answer = self.server.request("POST", path, binding)
        assert answer.ok, answer.message
        space.run(pod)


@contextmanager
def serving(server: ApiServer, name: str, root: Path) -> Iterator[Node]:
    """Serve a node; `root` takes the place of / for arguments that are paths of checkpoints."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    started, port = threading.Event(), []

    async def serve() -> None:
        app = web.Application()
        app[_ROOT] = str(root)
        app.router.add_get("/exec/{namespace}/{pod}/{container}", _execute)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", _log)
        runner = web.AppRunner(app)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server.ca, server.ca.with_name("server.key"))
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port.append(runner.addresses[0][1])
        started.set()
        await stop.wait()
        await runner.cleanup()
        # A TLS connection is closed some turns of the loop later, and the loop closes after this.
        await asyncio.sleep(0.25)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        _add_node(server, name, port[0])
        yield Node(server, name)
    finally:
        server.request("DELETE", f"/api/v1/nodes/{name}")
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


def _add_node(server: ApiServer, name: str, port: int) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    assert server.request("POST", "/api/v1/nodes", node).ok
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    server.merge(f"/api/v1/nodes/{name}/status", {"status": status})


async def _execute(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
    await socket.prepare(request)
    program, *rest = request.query.getall("command")
    assert program == "python3"
    here = [each.replace("/checkpoints", f"{request.app[_ROOT]}/checkpoints") for each in rest]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *here, stdin=pipe, stdout=pipe, stderr=pipe
    )
    given = asyncio.create_task(_feed(socket, process))
    await asyncio.gather(
        _send(socket, _STDOUT, process.stdout), _send(socket, _STDERR, process.stderr)
    )
    code = await process.wait()
    await socket.send_bytes(bytes([_ERROR]) + json.dumps(_result(code)).encode())
    given.cancel()
    await socket.close()
    return socket


async def _log(request: web.Request) -> web.Response:
    assert request.query["timestamps"] == "true"
    return web.Response(text=f"2026-01-02T03:04:05Z the log of {request.match_info['pod']}\n")


async def _feed(socket: web.WebSocketResponse, process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[0] == _STDIN:
            process.stdin.write(message.data[1:])
    process.kill()  # the client is gone


async def _send(
    socket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader | None
) -> None:
    assert stream is not None
    while data := await stream.read(32768):
        await socket.send_bytes(bytes([channel]) + data)


def _result(code: int) -> dict[str, Any]:
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with exit code {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
