from collections.abc import Iterator

import pytest
from harness import DIGITS, LoopbackCluster, Servers, computer

from tools.ports import free_port


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with computer(tmp_path_factory.mktemp("servers")) as each:
        started = Servers(each, LoopbackCluster.of(worker=2, ps=1))
        for role, index in (("worker", 0), ("worker", 1), ("ps", 0)):
            started.start(role, index)
        yield started


@pytest.fixture(scope="session")
def two_ps(servers: Servers) -> LoopbackCluster:
    """The servers of all tests, and one more ps."""
    addresses = {**servers.cluster.addresses}
    addresses["ps"] = [*addresses["ps"], f"localhost:{free_port()}"]
    cluster = LoopbackCluster(addresses)
    servers.computer.start("ps-1", DIGITS, env=cluster.env("ps", 1), serve=False)
    return cluster
