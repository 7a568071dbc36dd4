"""Fixtures of the operator's process against a real API server."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver import ApiServer
from tests.integration.charts import Helm, helm_at_home
from tests.integration.jobs import Namespace
from tests.integration.process import Operator, logged_since


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Add to a failure what the operators have logged: of one that passes on its rerun, no more."""
    began = time.time()
    try:
        return (yield)
    except AssertionError as error:
        for logged in logged_since(began):
            error.add_note(logged)
        raise


@pytest.fixture(scope="module")
def operator(
    apiserver: ApiServer, crd: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The operator for all namespaces; other modules write the status of jobs themselves."""
    assert crd
    log = tmp_path_factory.mktemp("operator") / "log"
    running = Operator(apiserver.kubeconfig, log, {"TFTRAINING_LOG_FORMAT": "json"})
    running.start()
    yield running
    running.stop()


@pytest.fixture
def space(apiserver: ApiServer, namespace: str, operator: Operator) -> Namespace:
    """A namespace that the operator serves."""
    assert operator
    return Namespace(apiserver, namespace)


@pytest.fixture(scope="session")
def run_helm(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm, away from the user's own settings; raises with what it said."""
    return helm_at_home(helm, tmp_path_factory.mktemp("helm"))
