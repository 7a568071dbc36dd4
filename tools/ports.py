"""Free ports on loopback, for tests, scenarios and benchmarks."""

import socket


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
