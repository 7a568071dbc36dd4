"""A cluster without machines: kube-apiserver, etcd, scheduler, garbage collector, and who plays."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.scale import audit
from bench.scale.player import POD_ADDRESSES
from tests.apiserver import PROGRAMS, ApiServer, collecting, companion, running
from tools.cluster.binaries import binary

NODES = 20
_STAGES = Path(__file__).with_name("stages.yaml")
_UNLIMITED = ("--kube-api-qps=5000", "--kube-api-burst=10000")
"""What scheduler and collector may ask for in a second is no limit of those who are measured."""


_GO_MEMORY = "12GiB"
"""From where on the API server collects garbage more often: with ten thousand jobs it needs it."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster, and the audit log of its API server."""

    server: ApiServer
    folder: Path
    components: dict[str, subprocess.Popen[bytes]]

    @property
    def audit(self) -> Path:
        """The API server's audit log."""
        return audit.log(self.folder)

    def add_namespace(self, name: str) -> None:
        """Create a namespace unless it exists."""
        self.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def problem(self) -> str | None:
        """Return which component has ended, None while all run."""
        ended = [name for name, each in self.components.items() if each.poll() is not None]
        return f"{', '.join(ended)} of the cluster has ended" if ended else None


@contextmanager
def cluster(crds: Sequence[Path], *, placed: bool = False) -> Iterator[Cluster]:
    """Start a cluster that serves these CRDs, and end it whatever happens.

    Where pods are placed already, as for very many jobs, nodes need not be ready; see player.
    """
    os.environ.setdefault("GOMEMLIMIT", _GO_MEMORY)
    programs = {name: binary(name) for name in PROGRAMS}
    scheduler, manager = map(binary, ("kube-scheduler", "kube-controller-manager"))
    with TemporaryDirectory(prefix="bench-scale-") as place, ExitStack() as stack:
        folder = Path(place)
        server = stack.enter_context(running(programs, *audit.flags(folder)))
        for crd in crds:
            # Some are too large for the annotation in which kubectl keeps what was applied.
            server.serve_crd(crd, "--server-side")
        components = {
            "scheduler": stack.enter_context(
                companion(scheduler, folder, f"--config={_scheduling(server)}", "--secure-port=0")
            ),
            "garbage collector": stack.enter_context(collecting(manager, server, *_UNLIMITED)),
            "player of pods": stack.enter_context(_player(server, folder, placed=placed)),
        }
        server.apply(*(_node(number) for number in range(NODES)))
        if not placed:
            server.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
            # Admission gives each new node the taint of one that is not ready.
            server.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready-")
        yield Cluster(server, folder, components)


def _player(
    server: ApiServer, folder: Path, *, placed: bool
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Let somebody play nodes and pods: kwok, or where there are too many for it, player."""
    if placed:
        arguments = (str(server.kubeconfig), server.url, str(server.ca), server.token)
        return companion(Path(sys.executable), folder, "-m", "bench.scale.player", *arguments)
    return companion(
        binary("kwok"),
        folder,
        f"--kubeconfig={server.kubeconfig}",
        f"--config={_STAGES}",
        f"--cidr={POD_ADDRESSES}",
        "--manage-all-nodes",
        "--node-lease-duration-seconds=200",
        "--server-address=",
    )


def _scheduling(server: ApiServer) -> Path:
    """Write the scheduler's configuration.

    Without its default constraints, for which it counts all pods of a Service on all nodes anew for
    each pod that belongs to one: from some thousand jobs on it would do nothing else.
    """
    spread = {"defaultingType": "List", "defaultConstraints": []}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(server.kubeconfig), "qps": 5000, "burst": 10000},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "PodTopologySpread", "args": spread}],
            }
        ],
    }
    path = server.kubeconfig.with_name("scheduler.json")
    path.write_text(json.dumps(config))
    return path


def node(number: int) -> str:
    """Return the name of one of the nodes; any number has one."""
    return f"kwok-{number % NODES}"


def _node(number: int) -> dict[str, object]:
    room = {"cpu": "10000", "memory": "10Ti", "pods": "10000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node(number)},
        "status": {"allocatable": room, "capacity": room},
    }
