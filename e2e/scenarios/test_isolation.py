"""The NetworkPolicy of a job, enforced: strangers cannot connect to its pods, and it trains on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.install import make_namespace
from e2e.jobs import endless, tasks
from e2e.scenarios.space import RESTRICTED, Space
from tools.cluster import Cluster
from tools.cluster.firewall import enforced
from tools.cluster.images import image_name
from tools.waiting import eventually

# The firewall judges the traffic of all pods.
pytestmark = pytest.mark.alone

_CLUSTER_PORT, _PROGRESS_PORT = 2222, 8080
_EFFECT_SECONDS = 20

_DIAL = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def dial(address):
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError as error:
        return str(error)
    return "connected"

addresses = sys.argv[1:]
with ThreadPoolExecutor() as pool:
    print(json.dumps(dict(zip(addresses, pool.map(dial, addresses)))))
"""


@dataclass(frozen=True, slots=True)
class Stranger:
    """A pod that belongs to no job."""

    space: Space

    def start(self) -> None:
        """Make the pod."""
        container = {
            "name": "stranger",
            "image": image_name("trainer"),
            "command": ["python3", "-c", "import time; time.sleep(3600)"],
            "securityContext": RESTRICTED,
        }
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}
        self.space.apply(made)

    def reaches(self, addresses: list[str]) -> list[str]:
        """Dial all addresses, and return those that accepted the connection."""
        dial = ("exec", "stranger", "--", "python3", "-c", _DIAL)
        answers: dict[str, str] = json.loads(self.space.kubectl(*dial, *addresses))
        return [address for address, answer in answers.items() if answer == "connected"]


@pytest.fixture
def _firewall(cluster: Cluster) -> Iterator[None]:
    if cluster.given:
        pytest.skip("whether the cluster of your KUBECONFIG enforces NetworkPolicies is not known")
    with enforced(cluster):
        yield


@pytest.fixture
def strangers(space: Space) -> Iterator[list[Stranger]]:
    """One in the job's namespace, one in another."""
    other = Space(space.cluster, f"{space.name}-other")
    make_namespace(other.cluster, other.name)
    found = [Stranger(space), Stranger(other)]
    for stranger in found:
        stranger.start()
    yield found
    other.cluster.kubectl("delete", "namespace", other.name, "--wait=false")


@pytest.mark.usefixtures("_firewall")
def test_strangers_connect_only_to_a_job_that_is_open(
    space: Space, strangers: list[Stranger]
) -> None:
    space.apply(tasks(), endless())
    space.wait_for("Running", seconds=120)
    for stranger in strangers:
        stranger.space.kubectl("wait", "--for=condition=Ready", "pod/stranger", "--timeout=60s")
    ports = listening(space)

    def reached() -> list[list[str]]:
        return [stranger.reaches(ports) for stranger in strangers]

    trains_on(space)
    assert reached() == [[], []]

    choose(space, "Open")
    eventually(lambda: reached() == [ports, ports], "all ports are open to all", _EFFECT_SECONDS)

    choose(space, "Isolated")
    eventually(lambda: reached() == [[], []], "no port is open to strangers", _EFFECT_SECONDS)
    trains_on(space)
    assert space.status()["restarts"] == 0


def listening(space: Space) -> list[str]:
    """Return the addresses on which the job's pods listen: TensorFlow's servers, and progress."""
    pods: list[dict[str, Any]] = space.read("pods")["items"]
    ips = {pod["metadata"]["name"]: pod["status"].get("podIP") for pod in pods}
    servers = [f"{ips[f'mnist-{role}-0']}:{_CLUSTER_PORT}" for role in ("chief", "worker", "ps")]
    return [*servers, f"{ips['mnist-chief-0']}:{_PROGRESS_PORT}"]


def choose(space: Space, policy: str) -> None:
    """Set spec.network.policy."""
    change = json.dumps({"spec": {"network": {"policy": policy}}})
    space.kubectl("patch", "tftj", "mnist", "--type=merge", "-p", change)


def trains_on(space: Space) -> None:
    """Wait for steps, which all of the job's pods make and the operator reads from the chief."""

    def step() -> int:
        return int((space.status().get("progress") or {}).get("step") or 0)

    before = step()
    eventually(lambda: step() > before, "more steps", 60)
