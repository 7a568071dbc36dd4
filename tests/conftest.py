"""Fixtures that several suites share: a real API server, a namespace in it, the CRD, helm."""

from __future__ import annotations

import functools
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apiserver import PROGRAMS, ApiServer, collecting, running
from tools.cluster.binaries import OTHER_KUBERNETES, binary, of_kubernetes
from tools.cluster.shell import ClusterError, NoClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]

KUBERNETES = os.environ.get("KUBERNETES", "")
"""Minor version of the API server and its companions, "" for that of the clusters."""
if KUBERNETES and KUBERNETES not in OTHER_KUBERNETES:
    raise pytest.UsageError(f"KUBERNETES={KUBERNETES} is none of {', '.join(OTHER_KUBERNETES)}")

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "apiserver": PROGRAMS,
    "own_apiserver": PROGRAMS,
    "audited": PROGRAMS,
    "garbage_collector": ("kube-controller-manager",),
    "gang_server": (
        *(*PROGRAMS, "kube-controller-manager", "kube-scheduler", "coscheduling"),
        *("volcano-scheduler", "volcano-controller-manager", "volcano-webhook-manager"),
    ),
    "gpu_server": (*PROGRAMS, "kube-controller-manager", "kube-scheduler"),
    "kueue": (*PROGRAMS, "kueue"),
    "scaled_server": (*(*PROGRAMS, "kube-controller-manager", "prometheus", "prometheus-adapter"),),
    "helm": ("helm",),
    "promtool": ("promtool",),
    "kubeconform": ("kubeconform",),
}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before any test's clock runs: a cold build takes minutes."""
    if session.config.option.collectonly:
        return
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for fixture, programs in _NEEDED.items():
        if fixture in wanted:
            for program in programs:
                _build(program)


@functools.cache
def _build(program: str) -> Path | ClusterError | OSError:
    """Return the program's path, or why there is none: it is tried once, as that takes minutes."""
    try:
        return binary(of_kubernetes(program, KUBERNETES) if KUBERNETES else program)
    except (ClusterError, OSError) as error:
        return error


def program_or_skip(program: str) -> Path:
    """Return a program's path; skip where the machine can build none. Raises if this one fails."""
    found = _build(program)
    if isinstance(found, NoClusterError):
        pytest.skip(f"{program} is not available: {found}")
    if isinstance(found, Exception):
        raise found
    return found


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ApiServer]:
    """A kube-apiserver with its etcd, the same for all tests of the session."""
    # The kubelet of the tests speaks WebSocket only, not the older SPDY (integration/kubelet.py).
    gate = "--feature-gates=TranslateStreamCloseWebsocketRequests=false"
    with running({program: program_or_skip(program) for program in PROGRAMS}, gate) as server:
        yield server


@pytest.fixture(scope="module")
def own_apiserver() -> Iterator[ApiServer]:
    """An API server for one module alone, which may do to it what others would notice."""
    with running({program: program_or_skip(program) for program in PROGRAMS}) as server:
        yield server


@pytest.fixture
def namespace(apiserver: ApiServer) -> str:
    """A namespace that no other test has."""
    name = f"test-{secrets.token_hex(4)}"
    made = apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.ok, made.message
    return name


@pytest.fixture(scope="session")
def crd(apiserver: ApiServer) -> str:
    """The name of our CustomResourceDefinition, applied as a user does and served."""
    return apiserver.serve_crd(ROOT / "crds")


@pytest.fixture(scope="session")
def garbage_collector(apiserver: ApiServer, crd: str) -> Iterator[None]:
    """The controller that collects what owners leave behind, for the session's API server."""
    assert crd, "it must know the resource from the beginning"
    with collecting(program_or_skip("kube-controller-manager"), apiserver):
        yield


@pytest.fixture(scope="session")
def helm() -> Path:
    """The helm program."""
    return program_or_skip("helm")


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' own tool."""
    return program_or_skip("promtool")


@pytest.fixture(scope="session")
def kubeconform() -> Path:
    """The program that compares manifests with schemas."""
    return program_or_skip("kubeconform")
