from collections.abc import Iterator

import pytest
from harness import DIGITS, LoopbackCluster, Servers, computer

from tools.ports import free_port


@pytest.fixture(scope="session")
def servers_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with computer(tmp_path_factory.mktemp("servers")) as each:
        started = Servers(each, LoopbackCluster.of(worker=2, ps=1))
        for role, index in (("worker", 0), ("worker", 1), ("ps", 0)):
            started.start(role, index)
        yield started


@pytest.fixture
def servers(servers_of_all: Servers) -> Servers:
    """What all tests have, whole again if a test failed that had ended one of them."""
    servers_of_all.revive()
    return servers_of_all


@pytest.fixture(scope="session")
def two_ps(servers_of_all: Servers) -> LoopbackCluster:
    """The servers of all tests, and one more ps."""
    addresses = {**servers_of_all.cluster.addresses}
    addresses["ps"] = [*addresses["ps"], f"localhost:{free_port()}"]
    cluster = LoopbackCluster(addresses)
    servers_of_all.computer.start("ps-1", DIGITS, env=cluster.env("ps", 1), serve=False)
    return cluster
