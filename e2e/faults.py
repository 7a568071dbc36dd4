"""Faults of one pod, made on a real cluster as nodes, kernels and people make them.

What the API can do (delete, evict) works on any cluster. The rest reaches into the node: a node of
kind is a container of an engine that we may use. Where the cluster was given by KUBECONFIG there is
no such engine, and these raise NoNodeError, so that a test skips them by name. Faults of what all
jobs share are in `platform_faults`.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tools.cluster import Cluster, ClusterError

_CLUSTER_PORT = 2222

# Many, because the kernel takes the largest: each of them stays smaller than what trains. A bite is
# touched, so that it counts.
_EAT = """\
import os, time
for _ in range(3):
    os.fork()
eaten = []
while True:
    eaten.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.002)
"""


class NoNodeError(Exception):
    """The fault needs a node that we may enter, or a cluster of ours; the message names it."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod as the target of faults."""

    cluster: Cluster
    namespace: str
    name: str
    container: str = "tensorflow"

    def delete(self, *, forced: bool = False) -> None:
        """Delete the pod; forced, without asking its node, which kills what runs."""
        now = ["--force", "--grace-period=0"] if forced else []
        self._kubectl("delete", "pod", self.name, "--wait=false", *now)

    def evict(self) -> None:
        """Delete the pod as a drain does, through the eviction API."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": self.name, "namespace": self.namespace},
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/eviction"
        self.cluster.kubectl("create", "--raw", path, "-f", "-", text_in=json.dumps(eviction))

    def kill(self) -> None:
        """Kill the container's first process with SIGKILL."""
        self._signal("KILL")

    def freeze(self) -> None:
        """Stop the process with SIGSTOP: it hangs, and its connections stay open."""
        self._signal("STOP")

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._signal("CONT")

    def exhaust_memory(self) -> None:
        """Have the kernel kill the process for lack of memory; the container must have a limit."""
        found = self.read()
        container = self._container(found)
        # Else the kernel might take an eater, whose end would be nobody's loss.
        script = (
            f"echo 1000 > /proc/$({pid_of(container)})/oom_score_adj; "
            f'exec crictl exec --sync --timeout 60 {container} python3 -c "$1"'
        )
        # The container goes, and the eaters with it, which crictl calls a failure.
        with suppress(ClusterError):
            self._in_node(found, script, "running out of memory", _EAT)

    def cut_off(self) -> None:
        """Drop all packets between the pod and others; its own node still reaches it.

        So a node that lost the network looks: its kubelet says that the pod is ready.
        """
        self.in_network(
            "via=$(ip route show default | awk '{print $3}'); "
            "iptables --wait -A INPUT ! -i lo ! -s $via -j DROP; "
            "iptables --wait -A OUTPUT ! -o lo ! -d $via -j DROP"
        )

    def cut_off_from_servers(self, seconds: float | None = None) -> None:
        """Drop all packets to the workers and parameter servers, and theirs; all else passes.

        For so many seconds, None for good. The node counts them: to enter it takes some as well.
        """
        undo = f"sleep {seconds}; iptables --wait -F" if seconds is not None else ""
        self.in_network(
            f"iptables --wait -A OUTPUT -p tcp --dport {_CLUSTER_PORT} -j DROP; "
            f"iptables --wait -A INPUT -p tcp --sport {_CLUSTER_PORT} -j DROP; {undo}"
        )

    def in_network(self, script: str) -> None:
        """Run a shell script of the node in the pod's network, whether its containers run or not.

        Raises ClusterError if the pod is gone.
        """
        find = (
            f"crictl pods --namespace {self.namespace} --name '^{self.name}$' --state Ready --quiet"
        )
        path = (
            "{{range .info.runtimeSpec.linux.namespaces}}"
            '{{if eq .type "network"}}{{.path}}{{end}}{{end}}'
        )
        enter = (
            f"network=$(crictl inspectp -o go-template --template '{path}' $({find})); "
            'nsenter --net=$network sh -euc "$1"'
        )
        self._in_node(self.read(), enter, "changing a pod's network", script)

    def read(self) -> dict[str, Any]:
        """Read the pod. Raises ClusterError if there is none."""
        found: dict[str, Any] = json.loads(self._kubectl("get", "pod", self.name, "-o", "json"))
        return found

    def _signal(self, name: str) -> None:
        found = self.read()
        pid = pid_of(self._container(found))
        self._in_node(found, f"kill -{name} $({pid})", f"SIG{name}")

    def _in_node(self, pod: dict[str, Any], script: str, fault: str, *arguments: str) -> None:
        in_node(self.cluster, pod["spec"]["nodeName"], script, fault, *arguments)

    def _container(self, pod: dict[str, Any]) -> str:
        for status in pod["status"].get("containerStatuses", []):
            if status["name"] == self.container and "running" in status["state"]:
                return str(status["containerID"]).rpartition("/")[2]
        raise ClusterError(f"{self.name} has no running container")

    def _kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments)


def corrupt_newest_checkpoint(cluster: Cluster, namespace: str, claim: str) -> str:
    """Write garbage into the newest checkpoint of a claim's volume; return its name.

    The chief must not be writing: freeze it, or let it be gone.
    """
    volume = cluster.kubectl(
        "-n", namespace, "get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}"
    )
    found = json.loads(cluster.kubectl("get", "pv", volume, "-o", "json"))["spec"]
    source = found.get("hostPath") or found.get("local")
    if source is None:
        raise NoNodeError("corrupting a checkpoint: the volume is no folder of a node")
    script = (
        f"cd {source['path']}; "
        "name=$(sed -n 's/^model_checkpoint_path: \"\\(.*\\)\"/\\1/p' checkpoint); "
        'name=$(basename "$name"); data=$(ls -S "$name".data-* | head -n 1); '
        'at=$(( $(stat -c %s "$data") / 2 )); '
        'head -c 64 /dev/urandom | dd of="$data" bs=1 seek=$at conv=notrunc status=none; '
        'echo "$name"'
    )
    return in_node(cluster, control_plane(cluster), script, "corrupting a checkpoint").strip()


def control_plane(cluster: Cluster) -> str:
    """Name the node that runs the API server."""
    label = "node-role.kubernetes.io/control-plane"
    names = cluster.kubectl("get", "nodes", "-l", label, "-o", "name").split()
    return names[0].removeprefix("node/")


def in_node(cluster: Cluster, node: str, script: str, fault: str, *arguments: str) -> str:
    """Run a shell script in a node. Raises NoNodeError where we may not enter it."""
    if cluster.engine is None:
        raise NoNodeError(f"{fault}: the cluster of your KUBECONFIG is not ours to enter")
    return cluster.engine.docker("exec", node, "sh", "-euc", script, "sh", *arguments, timeout=90)


def pid_of(container: str) -> str:
    """Return the command that prints the process number of a container, as its node counts."""
    return f"crictl inspect -o go-template --template '{{{{.info.pid}}}}' {container}"


def require_own(cluster: Cluster, fault: str) -> None:
    """Raise NoNodeError where all who use a cluster would feel the fault, and it is not ours."""
    if cluster.given:
        raise NoNodeError(f"{fault}: the cluster of your KUBECONFIG may have other users")
