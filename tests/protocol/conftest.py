"""The same tests on both servers: each is asked for once as `fake` and once as `real`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core.job import parse_job
from tftraining_operator.reconcile.store import Kind

from tests.protocol.servers import KINDS, FakeServer, RealServer
from tests.unit.builders import a_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tftraining_operator.core.job import Job

    from tests.protocol.servers import Api, Server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask every test of both."""
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", ["fake_server", "real_server"], indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The server that is asked."""
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def fake_server() -> FakeServer:
    return FakeServer()


@pytest_asyncio.fixture
async def real_server(request: pytest.FixtureRequest) -> AsyncIterator[RealServer]:
    apiserver = request.getfixturevalue("apiserver")
    request.getfixturevalue("crd")
    namespace = request.getfixturevalue("namespace")
    cluster = await KubernetesApi.connect(str(apiserver.kubeconfig))
    try:
        versions = {
            kind: int((await cluster.list(kind, namespace)).resource_version) for kind in KINDS
        }
        yield RealServer(cluster, namespace, apiserver, versions)
    finally:
        await cluster.close()


@pytest.fixture
def api(server: Server) -> Api:
    """The operator's calls to the server."""
    return server.api


@pytest_asyncio.fixture
async def job(server: Server) -> Job:
    """A job that a user has submitted."""
    body = a_job().named("mnist", namespace=server.namespace).raw
    return parse_job(await server.api.create(Kind.JOB, body), datetime.now(UTC))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name what a test asks for by its parameter, so that programs are built before it is timed."""
    if isinstance(item, pytest.Function) and "[real_server" in item.name:
        item.fixturenames = [*item.fixturenames, "real_server", "apiserver"]
