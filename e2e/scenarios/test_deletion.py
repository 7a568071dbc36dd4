"""A job that is deleted while it trains leaves nothing, whether the operator is there or not."""

from collections.abc import Callable, Iterator

import pytest

from e2e.install import NAMESPACE, RELEASE
from e2e.scenarios.space import Space, job
from tools.cluster import Cluster
from tools.waiting import eventually

GRACE_SECONDS = 30
_DEPLOYMENT = f"deployment/{RELEASE}-operator"


@pytest.fixture
def without_operator(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Yield a function that stops the operator; it is started again afterwards."""
    replicas = cluster.kubectl(
        "-n", NAMESPACE, "get", _DEPLOYMENT, "-o", "jsonpath={.spec.replicas}"
    )

    def scale(replicas: str) -> None:
        cluster.kubectl("-n", NAMESPACE, "scale", _DEPLOYMENT, f"--replicas={replicas}")
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", _DEPLOYMENT, "--timeout=120s")

    yield lambda: scale("0")
    scale(replicas)


def nothing_is_left(space: Space) -> bool:
    pods = space.pods()
    services = space.kubectl("get", "services", "-o", "name").strip()
    return not pods and not services


def test_with_the_operator_running(space: Space) -> None:
    space.apply(job("mnist", "--epochs=1000"))
    space.wait_for("Running")
    space.kubectl("delete", "tftj", "mnist", "--timeout=10s")
    eventually(lambda: nothing_is_left(space), "no pod and no service", GRACE_SECONDS)


def test_with_the_operator_stopped(space: Space, without_operator: Callable[[], None]) -> None:
    space.apply(job("mnist", "--epochs=1000"))
    space.wait_for("Running")
    without_operator()
    space.kubectl("delete", "tftj", "mnist", "--timeout=10s")
    eventually(lambda: nothing_is_left(space), "no pod and no service", GRACE_SECONDS)
