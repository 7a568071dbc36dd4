"""Serves the web page on this computer, for `tftj web`."""

import asyncio
import secrets

from tftraining.cli import console
from tftraining.cluster.connection import Connection
from tftraining.web.server import application, serve
from tftraining.web.source import Source

_LOOPBACK = "127.0.0.1"


def show(namespace: str | None, context: str | None, port: int, *, everywhere: bool) -> None:
    """Serve until the user stops it. Raises TFTrainingError."""
    connection = Connection.open(namespace, context)
    source = Source(connection.within, () if everywhere else (connection.namespace,))
    # Every user of this computer can connect to a port of it.
    path = secrets.token_urlsafe(16)

    def say(found: int) -> None:
        console.show(f"http://{_LOOPBACK}:{found}/{path}/")
        console.note("open it in a browser; Ctrl-C ends it")

    asyncio.run(serve(application(source, path=path), _LOOPBACK, port, say))
