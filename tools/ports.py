"""Free ports on loopback, for tests, scenarios and benchmarks."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below those that the kernel gives to outgoing connections, a cluster's NodePorts, and those that
# `tftj run --local` takes: what begins at its port late must not find that something else has it.
_PORTS = range(10_000, 20_000)

_LATEST = Path(tempfile.gettempdir()) / f"tftraining-ports-{os.getuid()}"
"""Holds the port that was given last, whichever process of this user asked for it."""


def free_port() -> int:
    """Return a free port that none of this user's processes was given lately.

    It is taken some time later, so another process must not be given it meanwhile. Raises OSError.
    """
    for _ in _PORTS:
        port = _next()
        if _is_free(port):
            return port
    raise OSError(f"no port from {_PORTS[0]} to {_PORTS[-1]} is free")


def is_listening(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections at a port."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def _next() -> int:
    """Return the port after the latest one."""
    with _LATEST.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        # A machine that lost its power may have left zeros.
        written = file.read()
        latest = int(written) if written.isdecimal() else random.choice(_PORTS)  # noqa: S311
        port = latest + 1 if latest + 1 in _PORTS else _PORTS[0]
        file.truncate(0)
        file.write(str(port))
    return port


def _is_free(port: int) -> bool:
    # On every address, as TensorFlow's servers listen.
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
