"""What runs between one client and the API server, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Relay:
    """A server on loopback, without TLS towards its client; `serve` is what it does."""

    def __init__(self) -> None:
        self.url = ""
        self._ended = asyncio.Event()
        self._loop = asyncio.new_event_loop()

    def end(self) -> None:
        """Close it."""
        self._loop.call_soon_threadsafe(self._ended.set)

    def run(self, ready: threading.Event) -> None:
        """Serve until ended, in this thread."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        """Set the URL, say that it is ready, and serve until ended."""
        raise NotImplementedError


@contextmanager
def between(relay: Relay, given: Path, kubeconfig: Path) -> Iterator[None]:
    """Run a relay for the block; write a kubeconfig as the given one that leads over it."""
    ready = threading.Event()
    thread = threading.Thread(target=relay.run, args=(ready,))
    thread.start()
    try:
        assert ready.wait(10)
        config = json.loads(given.read_text())
        config["clusters"][0]["cluster"] = {"server": relay.url}
        kubeconfig.write_text(json.dumps(config))
        yield
    finally:
        with contextlib.suppress(RuntimeError):
            relay.end()
        thread.join(10)
