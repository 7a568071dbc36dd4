"""One cluster and one operator for all scenarios; a namespace for each.

Scenarios mostly wait, so two processes (pytest-xdist) run them side by side. The process that
starts the two provides the cluster. A scenario with the mark `alone` disturbs what all share: it
runs while no other does.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.build_view import shown
from e2e.demo import say
from e2e.faults import NoNodeError
from e2e.install import installed
from e2e.prometheus import Prometheus, prometheus
from e2e.recording import recording
from e2e.scenarios.drill import Drill
from e2e.scenarios.space import Space, new_space
from e2e.terminal import console
from tools.cluster import Cluster, ClusterError, NoClusterError, find, first_build, obtain
from tools.cluster.cache import cache_dir, locked
from tools.cluster.steps import Progress
from tools.time_limit import seconds_left

_PROVIDED = pytest.StashKey[ExitStack]()
_NO_CLUSTER = pytest.StashKey[str]()
"""Why no cluster can be used, or ''."""
_START_SECONDS = 300.0
"""What a cluster takes at least on a machine that has to build one."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Provide the given cluster, the one that is up, or a new one; with the operator."""
    config = session.config
    if hasattr(config, "workerinput"):
        config.stash[_NO_CLUSTER] = config.workerinput["no_cluster"]
        return
    config.stash[_NO_CLUSTER] = ""
    if config.option.collectonly:
        return
    if seconds_left() < _START_SECONDS:
        config.stash[_NO_CLUSTER] = "no time is left to start one"
        return
    capture = config.pluginmanager.getplugin("capturemanager")

    def print_line(line: str) -> None:
        with capture.global_and_fixture_disabled():
            say(line)

    @contextmanager
    def show(progress: Progress) -> Iterator[None]:
        with capture.global_and_fixture_disabled(), shown(console, progress):
            yield

    # A machine without a node image builds side by side what takes long, as the demo does.
    beside = first_build.Beside(lambda: None, show)
    start = partial(first_build.start, beside=beside)
    try:
        # pytest calls no pytest_sessionfinish after an exception in this function.
        with ExitStack() as stack:
            cluster = stack.enter_context(obtain(say=print_line, start=start))
            stack.enter_context(installed(cluster, print_line))
            config.stash[_PROVIDED] = stack.pop_all()
    except NoClusterError as error:
        config.stash[_NO_CLUSTER] = str(error)
    except ClusterError as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have those that run alone come last: one process waits for the other only then.

    Those that take long come first, so that it does not wait long.
    """
    items.sort(key=lambda item: (_runs_alone(item), item.get_closest_marker("long") is None))


def _runs_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - pytest-xdist has no types
    """Tell a process that runs scenarios what it has to know."""
    node.workerinput["no_cluster"] = node.config.stash[_NO_CLUSTER]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Take the operator out again, and a cluster that was made for the scenarios."""
    if _PROVIDED in session.config.stash:
        session.config.stash[_PROVIDED].close()


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Wait for those that run alone; who runs alone, for all others."""
    with locked(cache_dir() / "locks/scenario", shared=not _runs_alone(request.node)):
        yield


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster, with the operator installed."""
    if why := request.config.stash[_NO_CLUSTER]:
        pytest.skip(f"no cluster can be used: {why}")
    return find()


@pytest.fixture
def space(cluster: Cluster) -> Iterator[Space]:
    """A namespace of the test's own, deleted with all that is in it."""
    with new_space(cluster) as made:
        yield made


@pytest.fixture
def drill(space: Space) -> Iterator[Drill]:
    """A job to hit, in a namespace of the test's own, and the record of what became of it."""
    with recording(space.cluster, space.name) as record:
        yield Drill(space, record)


def program_or_skip(cluster: Cluster, program: str) -> Path:
    """Return a program; a fixture of the session builds it before a scenario's turn comes."""
    try:
        return cluster.tool(program)
    except NoClusterError as error:
        pytest.skip(f"{program} cannot be built: {error}")


@pytest.fixture(scope="session")
def prometheus_program(cluster: Cluster) -> Path:
    return program_or_skip(cluster, "prometheus")


@pytest.fixture
def prometheus_server(cluster: Cluster, prometheus_program: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the operator and all jobs."""
    with prometheus(cluster, prometheus_program) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Skip by its name what needs a node that is not ours to enter."""
    try:
        yield
    except NoNodeError as error:
        pytest.skip(str(error))
