"""A way to a port that can be taken from one process, as a network takes it from one node."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_CHUNK = 1 << 16


class Relay:
    """Passes on what comes to `port`; each connection has two threads."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._do(self._accept)

    def cut(self, pid: int) -> int:
        """End the connections of a process; return how many it had."""
        own = {path.readlink().name for path in Path(f"/proc/{pid}/fd").iterdir()}
        cut = 0
        for pair in list(self._pairs):
            with suppress(OSError):
                if f"socket:[{_inode(pair[0].getpeername()[1], self.port)}]" in own:
                    _end(pair)
                    cut += 1
        return cut

    def close(self) -> None:
        """Take the way from all."""
        self._server.shutdown(socket.SHUT_RDWR)
        for pair in self._pairs:
            _end(pair)
        for thread in self._threads:
            thread.join()
        for each in (self._server, *(each for pair in self._pairs for each in pair)):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._server.accept()
                try:
                    there = socket.create_connection(("127.0.0.1", self._target))
                except ConnectionRefusedError:
                    here.close()
                    continue
                self._pairs.append((here, there))
                self._do(_pump, here, there)
                self._do(_pump, there, here)

    def _do(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    _end((source, sink))


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for each in pair:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _inode(local: int, remote: int) -> str | None:
    """Find the socket of a connection between two ports."""
    wanted = (f"{local:04X}", f"{remote:04X}")
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if tuple(fields[at].rpartition(":")[2] for at in (1, 2)) == wanted:
                return fields[9]
    return None
