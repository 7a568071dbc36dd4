"""One cluster and one operator for all scenarios; a namespace for each."""

import secrets
from collections.abc import Generator, Iterator

import pytest

from e2e.demo import say
from e2e.faults import NoNodeError
from e2e.install import installed, make_namespace
from e2e.recording import recording
from e2e.scenarios.drill import Drill
from e2e.scenarios.space import Space
from tools.cluster import Cluster, NoClusterError, obtain


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The given cluster, the one that is up, or one of our own that goes again at the end."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def print_line(line: str) -> None:
        with capture.global_and_fixture_disabled():
            say(line)

    try:
        found = obtain(say=print_line)
        with found as ready, installed(ready, print_line):
            yield ready
    except NoClusterError as error:
        pytest.skip(f"no cluster can run on this machine: {error}")


@pytest.fixture
def space(cluster: Cluster) -> Iterator[Space]:
    """A namespace of the test's own, deleted with all that is in it."""
    name = f"scenario-{secrets.token_hex(3)}"
    make_namespace(cluster, name)
    yield Space(cluster, name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def drill(space: Space) -> Iterator[Drill]:
    """A job to hit, in a namespace of the test's own, and the record of what became of it."""
    with recording(space.cluster, space.name) as record:
        yield Drill(space, record)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Skip by its name what needs a node that is not ours to enter."""
    try:
        yield
    except NoNodeError as error:
        pytest.skip(str(error))
