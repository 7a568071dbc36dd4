"""Free ports on loopback, for tests, scenarios and benchmarks."""

import contextlib
import itertools
import random
import socket
from collections.abc import Iterator

# Below those that the kernel gives to outgoing connections, and below a cluster's NodePorts: what
# restarts at its port, or begins there late, must not find that a connection has it.
_PORTS = range(10_000, 30_000)


def _from_anywhere() -> Iterator[int]:
    # In turn, so that no port is given twice; processes side by side begin in different places.
    start = random.SystemRandom().choice(_PORTS)
    return itertools.cycle([*range(start, _PORTS.stop), *range(_PORTS.start, start)])


_CANDIDATES = _from_anywhere()


def free_port() -> int:
    """Return a free port, another one at each call."""
    return next(filter(_is_free, _CANDIDATES))


def is_listening(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections at a port."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def _is_free(port: int) -> bool:
    # On every address, as TensorFlow's servers listen.
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
