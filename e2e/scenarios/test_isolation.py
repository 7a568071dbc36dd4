"""The NetworkPolicy of a job, enforced: who may connect to its pods does, and nobody else."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from e2e.install import ROOT, install, make_namespace
from e2e.jobs import claim, endless, tasks
from e2e.scenarios.space import Space, idle_pod
from tools.cluster import Cluster
from tools.cluster.firewall import enforced
from tools.waiting import eventually

# The firewall judges the traffic of all pods.
pytestmark = pytest.mark.alone

_CLUSTER_PORT, _PROGRESS_PORT = 2222, 8080
_EFFECT_SECONDS = 20
_READER = {"team": "monitoring"}
_READERS = (
    r"namespaceSelector.matchLabels.pod-security\.kubernetes\.io/enforce=restricted",
    *(f"podSelector.matchLabels.{name}={value}" for name, value in _READER.items()),
)
"""The pods with this label, in any namespace of the scenarios."""

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
class Caller:
    """A pod that dials others."""

    space: Space
    name: str = "stranger"
    labels: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Make it: a pod that belongs to no job."""
        self.space.apply(idle_pod(self.name, self.labels))

    def wait(self) -> None:
        """Wait until it runs."""
        wait_until_ready(self.space, self.name)

    def reaches(self, addresses: list[str]) -> list[str]:
        """Dial all addresses, and return those that accepted the connection."""
        dial = ("exec", self.name, "--", "python3", "-c", _DIAL)
        answers: dict[str, str] = json.loads(self.space.kubectl(*dial, *addresses))
        return [address for address, answer in answers.items() if answer == "connected"]


@pytest.fixture
def _firewall(cluster: Cluster) -> Iterator[None]:
    if cluster.given:
        pytest.skip("whether the cluster of your KUBECONFIG enforces NetworkPolicies is not known")
    with enforced(cluster):
        yield


@pytest.fixture
def _readers(cluster: Cluster) -> Iterator[None]:
    """The operator lets some pods read the progress of isolated jobs."""
    install(cluster, *(f"jobs.networkPolicy.readers[0].{each}" for each in _READERS))
    yield
    install(cluster)


@pytest.fixture
def other(space: Space) -> Iterator[Space]:
    """Another namespace than the job's."""
    found = Space(space.cluster, f"{space.name}-other")
    make_namespace(found.cluster, found.name)
    yield found
    found.cluster.kubectl("delete", "namespace", found.name, "--wait=false")


@pytest.mark.usefixtures("_firewall", "_readers")
def test_only_readers_connect_to_progress_and_strangers_only_to_a_job_that_is_open(
    space: Space, other: Space
) -> None:
    strangers = [Caller(space), Caller(other)]
    reader = Caller(other, "reader", _READER)
    for each in (*strangers, reader):
        each.start()
    stored = {"persistentVolumeClaim": {"claimName": "mnist"}}
    space.apply(tasks(), claim("mnist"), endless(checkpoint=stored, evaluator={}))
    space.wait_for("Running", seconds=120)
    wait_until_ready(space, "mnist-evaluator-0")
    for each in (*strangers, reader):
        each.wait()
    servers, progress = listening(space)
    ports = [*servers, *progress]

    def reached() -> list[list[str]]:
        return [stranger.reaches(ports) for stranger in strangers]

    trains_on(space)
    assert reached() == [[], []]
    assert reader.reaches(ports) == progress

    choose(space, "Open")
    eventually(lambda: reached() == [ports, ports], "all ports are open to all", _EFFECT_SECONDS)

    choose(space, "Isolated")
    eventually(lambda: reached() == [[], []], "no port is open to strangers", _EFFECT_SECONDS)
    assert reader.reaches(ports) == progress
    trains_on(space)

    worker = Caller(space, "mnist-worker-0")
    dns, metrics = ports_of_dns(space)
    assert worker.reaches([dns, metrics]) == [dns, metrics]
    space.apply(egress_policy())
    eventually(
        lambda: worker.reaches([dns, metrics]) == [dns], "only DNS is open to it", _EFFECT_SECONDS
    )
    trains_on(space)
    assert space.status()["restarts"] == 0


def egress_policy() -> dict[str, Any]:
    """Return the guide's NetworkPolicy for what the pods of `mnist` connect to."""
    page = (ROOT / "docs/guide/security.md").read_text()
    blocks = [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    (found,) = [b for b in blocks if b.get("metadata", {}).get("name") == "mnist-egress"]
    return dict(found)


def ports_of_dns(space: Space) -> tuple[str, str]:
    """Return the addresses on which a pod of the cluster's DNS answers, and serves its metrics."""
    where = ("get", "pods", "-n", "kube-system", "-l", "k8s-app=kube-dns")
    ip = space.cluster.kubectl(*where, "-o", "jsonpath={.items[0].status.podIP}")
    return f"{ip}:53", f"{ip}:9153"


def wait_until_ready(space: Space, pod: str) -> None:
    """Wait until a pod is ready."""
    space.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")


def listening(space: Space) -> tuple[list[str], list[str]]:
    """Return the addresses on which the job's pods listen: TensorFlow's servers, and progress."""
    pods: list[dict[str, Any]] = space.read("pods")["items"]
    ips = {pod["metadata"]["name"]: pod["status"].get("podIP") for pod in pods}

    def addresses(port: int, *roles: str) -> list[str]:
        return [f"{ips[f'mnist-{role}-0']}:{port}" for role in roles]

    return (
        addresses(_CLUSTER_PORT, "chief", "worker", "ps"),
        addresses(_PROGRESS_PORT, "chief", "evaluator"),
    )


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
