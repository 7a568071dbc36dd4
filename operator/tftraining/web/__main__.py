"""Entry point in a cluster: `python -m tftraining.web`."""

import asyncio
import os
import sys

from tftraining.cluster.connection import Connection
from tftraining.errors import InputError, TFTrainingError
from tftraining.web.server import application, serve
from tftraining.web.source import Source

_PORT = "8080"


def main() -> int:
    """Serve on every address, as the environment says; return the exit code.

    TFTRAINING_NAMESPACES: the namespaces whose jobs are shown, comma separated; empty for all.
    TFTRAINING_WEB_HOSTS: the host names under which the page is reached, comma separated.
    TFTRAINING_WEB_PORT: the port; 8080 if unset.
    """
    try:
        connection = Connection.open(None, None)
        source = Source(connection.within, _names("TFTRAINING_NAMESPACES"))
        app = application(source, hosts=_names("TFTRAINING_WEB_HOSTS"))
        asyncio.run(serve(app, "", _port(os.environ.get("TFTRAINING_WEB_PORT") or _PORT)))
    except TFTrainingError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.code)
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65535:  # noqa: PLR2004 - ports
        raise InputError(f"TFTRAINING_WEB_PORT is {text!r}; it must be a number from 1 to 65535")
    return int(text)


def _names(variable: str) -> list[str]:
    return [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]


if __name__ == "__main__":
    sys.exit(main())
