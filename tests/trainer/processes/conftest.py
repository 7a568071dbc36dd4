from collections.abc import Iterator

import pytest
from harness import LoopbackCluster, Servers, computer


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with computer(tmp_path_factory.mktemp("servers")) as each:
        started = Servers(each, LoopbackCluster.of(worker=2, ps=1))
        for role, index in (("worker", 0), ("worker", 1), ("ps", 0)):
            started.start(role, index)
        yield started
