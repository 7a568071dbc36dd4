"""A TCP proxy that delays what clients send and breaks some of their connections.

`slow_api` runs it in a pod, between the operator and the API server: python3 -c THIS PORT HOST
SECONDS SHARE. TLS passes through it as it is. A connection is set up at once; from then on each
request takes so many seconds more, and this share of them ends in a reset.
"""

import asyncio
import random
import signal
import sys

_BYTES = 1 << 16


async def _delay(
    client: asyncio.StreamReader, server: asyncio.StreamWriter, seconds: float, share: float
) -> None:
    """Pass on what a client sends; raises ConnectionResetError for this share of it."""
    clock = asyncio.get_running_loop().time
    sent: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def receive() -> None:
        # The first is the greeting of TLS.
        await sent.put((clock(), await client.read(_BYTES)))
        while data := await client.read(_BYTES):
            if random.random() < share:  # noqa: S311 - chance, not secrets
                raise ConnectionResetError
            await sent.put((clock() + seconds, data))
        await sent.put((clock(), b""))

    async def send() -> None:
        while True:
            due, data = await sent.get()
            await asyncio.sleep(due - clock())
            if not data:
                raise ConnectionResetError
            server.write(data)
            await server.drain()

    await asyncio.gather(receive(), send())


async def _pass_on(server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    while data := await server.read(_BYTES):
        client.write(data)
        await client.drain()
    raise ConnectionResetError


async def main(port: int, host: str, seconds: float, share: float) -> None:
    """Serve until the pod is asked to end, then break what is open."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        to_server: asyncio.StreamWriter | None = None
        try:
            server, to_server = await asyncio.open_connection(host, 443)
            both = _delay(client, to_server, seconds, share), _pass_on(server, to_client)
            async with asyncio.TaskGroup() as tasks:
                for each in both:
                    tasks.create_task(each)
        except* OSError:
            pass
        finally:
            to_client.transport.abort()
            if to_server is not None:
                to_server.transport.abort()

    async with await asyncio.start_server(serve, port=port):
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))
