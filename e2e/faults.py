"""Faults, made on a real cluster as nodes, kernels and people make them.

What the API can do (delete, evict) works on any cluster. The rest reaches into the node: a node of
kind is a container of an engine that we may use. Where the cluster was given by KUBECONFIG there is
no such engine, and these raise NoNodeError, so that a test skips them by name.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tools.cluster import Cluster, ClusterError
from tools.waiting import eventually

_APISERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_ASIDE = "/etc/kubernetes/kube-apiserver.yaml"
_API_SECONDS = 120

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
    """The fault needs a node that we may enter; the message names the fault."""


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
            f"echo 1000 > /proc/$({_pid_of(container)})/oom_score_adj; "
            f'exec crictl exec --sync --timeout 60 {container} python3 -c "$1"'
        )
        # The container goes, and the eaters with it, which crictl calls a failure.
        with suppress(ClusterError):
            self._in_node(found, script, "running out of memory", _EAT)

    def cut_off(self) -> None:
        """Drop all packets between the pod and others; its own node still reaches it.

        So a node that lost the network looks: its kubelet says that the pod is ready.
        """
        self._in_network(
            "via=$(ip route show default | awk '{print $3}'); "
            "iptables --wait -A INPUT ! -i lo ! -s $via -j DROP; "
            "iptables --wait -A OUTPUT ! -o lo ! -d $via -j DROP"
        )

    def reconnect(self) -> None:
        """Undo `cut_off`."""
        self._in_network("iptables --wait -F")

    def read(self) -> dict[str, Any]:
        """Read the pod. Raises ClusterError if there is none."""
        found: dict[str, Any] = json.loads(self._kubectl("get", "pod", self.name, "-o", "json"))
        return found

    def _signal(self, name: str) -> None:
        found = self.read()
        pid = _pid_of(self._container(found))
        self._in_node(found, f"kill -{name} $({pid})", f"SIG{name}")

    def _in_network(self, script: str) -> None:
        found = self.read()
        pid = _pid_of(self._container(found))
        enter = f'nsenter --net=/proc/$({pid})/ns/net sh -euc "$1"'
        self._in_node(found, enter, "dropping packets", script)

    def _in_node(self, pod: dict[str, Any], script: str, fault: str, *arguments: str) -> None:
        in_node(self.cluster, pod["spec"]["nodeName"], script, fault, *arguments)

    def _container(self, pod: dict[str, Any]) -> str:
        for status in pod["status"].get("containerStatuses", []):
            if status["name"] == self.container and "running" in status["state"]:
                return str(status["containerID"]).rpartition("/")[2]
        raise ClusterError(f"{self.name} has no running container")

    def _kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments)


def kill_operator(cluster: Cluster, namespace: str) -> None:
    """Kill every process of the operator with SIGKILL; its Deployment makes new ones.

    The dead pods are deleted: else the kubelet would wait longer each time before it tries again.
    So is their lease, which would bind new ones for a while to somebody who is surely dead.
    """
    selected = ("-l", "app.kubernetes.io/name=tftraining-operator")
    listed = cluster.kubectl("-n", namespace, "get", "pods", *selected, "-o", "json")
    running = [
        (pod["spec"]["nodeName"], str(status["containerID"]).rpartition("/")[2])
        for pod in json.loads(listed)["items"]
        for status in pod["status"].get("containerStatuses", [])
        if "running" in status["state"]
    ]
    for node in {node for node, _ in running}:
        pids = " ".join(f"$({_pid_of(container)})" for at, container in running if at == node)
        # One that ended meanwhile needs no killing.
        with suppress(ClusterError):
            in_node(cluster, node, f"kill -KILL {pids}", "killing the operator")
    now = ("--force", "--grace-period=0")
    cluster.kubectl("-n", namespace, "delete", "pods", *selected, *now)
    cluster.kubectl("-n", namespace, "delete", "leases", "--all")


def operator_leads(cluster: Cluster, namespace: str) -> bool:
    """Whether a process of the operator holds the lease."""
    holders = "jsonpath={.items[*].spec.holderIdentity}"
    return bool(cluster.kubectl("-n", namespace, "get", "leases", "-o", holders))


def stop_apiserver(cluster: Cluster, seconds: float) -> None:
    """Have no API server for some time; return when it answers again."""
    node = control_plane(cluster)
    # The kubelet restarts what has a manifest. Killed, it takes no time to say goodbye.
    in_node(
        cluster,
        node,
        f"mv {_APISERVER} {_ASIDE}; pkill -KILL -x kube-apiserver",
        "stopping the API server",
    )
    try:
        time.sleep(seconds)
    finally:
        in_node(cluster, node, f"mv {_ASIDE} {_APISERVER}", "starting the API server")
    eventually(lambda: _answers(cluster), "the API server answers", _API_SECONDS)


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


def _pid_of(container: str) -> str:
    """Return the command that prints the process number of a container, as its node counts."""
    return f"crictl inspect -o go-template --template '{{{{.info.pid}}}}' {container}"


def _answers(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=5s")
    except ClusterError:
        return False
    return True
