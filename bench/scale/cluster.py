"""A cluster without machines: kube-apiserver, etcd, scheduler, garbage collector, kwok."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.scale import audit
from tests.apiserver import PROGRAMS, ApiServer, collecting, companion, running
from tools.cluster.binaries import binary

NODES = 8
_STAGES = Path(__file__).with_name("stages.yaml")
_POD_ADDRESSES = [f"127.{128 + 16 * number}.0.0/12" for number in range(NODES)]
"""Of each node, on loopback: where nobody listens, who asks for progress is refused at once."""

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
def cluster(crds: Sequence[Path]) -> Iterator[Cluster]:
    """Start a cluster that serves these CRDs, and end it whatever happens."""
    os.environ.setdefault("GOMEMLIMIT", _GO_MEMORY)
    programs = {name: binary(name) for name in PROGRAMS}
    scheduler, manager, kwok = map(binary, ("kube-scheduler", "kube-controller-manager", "kwok"))
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
            **{
                f"kwok of {node(number)}": stack.enter_context(
                    _played(kwok, server, folder, number)
                )
                for number in range(NODES)
            },
        }
        server.apply(*(_node(number) for number in range(NODES)))
        server.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
        # Admission gives each new node the taint of one that is not ready.
        server.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready-")
        yield Cluster(server, folder, components)


def _played(
    kwok: Path, server: ApiServer, folder: Path, number: int
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Play one node, by a process of its own.

    One for all nodes watches all pods. From some ten thousand on it is slower than the API server
    waits, and what ends its watch lets it begin again with every pod: new ones are never reached.
    """
    place = folder / node(number)
    place.mkdir()
    return companion(
        kwok,
        place,
        f"--kubeconfig={server.kubeconfig}",
        f"--config={_STAGES}",
        f"--cidr={_POD_ADDRESSES[number]}",
        f"--manage-single-node={node(number)}",
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
    room = {"cpu": "10000", "memory": "10Ti", "pods": "20000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node(number)},
        "status": {"allocatable": room, "capacity": room},
    }
