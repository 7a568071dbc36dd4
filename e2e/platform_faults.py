"""Faults of what all jobs share: the operator, the API server, DNS, the room for pods.

Each is a context: the fault lasts as long as the block and is undone afterwards.
Those that other users of a given cluster would feel raise NoNodeError there.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import Any

from e2e.faults import Pod, control_plane, in_node, pid_of, require_own
from e2e.install import NAMESPACE, OPERATOR, OPERATOR_PODS, RELEASE
from tools.cluster import Cluster, ClusterError
from tools.waiting import eventually

_APISERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_ASIDE = "/etc/kubernetes/kube-apiserver.yaml"
_API_SECONDS = 120
_PROGRESS_PORT = 8080
_QUOTA = "no-pods"


def kill_operator(cluster: Cluster) -> None:
    """Kill every process of the operator with SIGKILL; its Deployment makes new ones.

    The dead pods are deleted: else the kubelet would wait longer each time before it tries again.
    So is their lease, which would bind new ones for a while to somebody who is surely dead.
    """
    scope = ("-n", NAMESPACE)
    listed = cluster.kubectl(*scope, "get", "pods", *OPERATOR_PODS, "-o", "json")
    running = [
        (pod["spec"]["nodeName"], str(status["containerID"]).rpartition("/")[2])
        for pod in json.loads(listed)["items"]
        for status in pod["status"].get("containerStatuses", [])
        if "running" in status["state"]
    ]
    for node in {node for node, _ in running}:
        pids = " ".join(f"$({pid_of(container)})" for at, container in running if at == node)
        # One that ended meanwhile needs no killing.
        with suppress(ClusterError):
            in_node(cluster, node, f"kill -KILL {pids}", "killing the operator")
    now = ("--force", "--grace-period=0")
    cluster.kubectl(*scope, "delete", "pods", *OPERATOR_PODS, *now)
    cluster.kubectl(*scope, "delete", "leases", "--all")


def operator_leads(cluster: Cluster, since: datetime) -> bool:
    """Whether a process of the operator has renewed its lease after a moment, and is ready.

    After an outage of the API server, the lease still names a leader that has ended. And a leader
    is ready once it has listed everything: on a busy machine that takes longer than a pod that is
    evicted needs to be gone, so that nobody would know why it went.
    """
    renewed = any(time > since for time in _renewed(cluster, NAMESPACE, "leases"))
    return renewed and _is_ready(cluster, lease_holder(cluster))


def _is_ready(cluster: Cluster, pod: str) -> bool:
    path = "jsonpath={.status.containerStatuses[0].ready}"
    scope = ("-n", NAMESPACE, "get", "pod", pod, "--ignore-not-found", "-o", path)
    return bool(pod) and cluster.kubectl(*scope) == "true"


def controllers_lead(cluster: Cluster, since: datetime) -> bool:
    """Whether Kubernetes's scheduler and controllers have renewed their leases after a moment.

    For a minute after an outage of the API server nobody binds pods and volumes.
    """
    leases = ("lease/kube-scheduler", "lease/kube-controller-manager")
    renewed = _renewed(cluster, "kube-system", *leases)
    return len(renewed) == len(leases) and min(renewed) > since


def _renewed(cluster: Cluster, namespace: str, *leases: str) -> list[datetime]:
    times = "jsonpath={.items[*].spec.renewTime}"
    found = cluster.kubectl("-n", namespace, "get", *leases, "-o", times).split()
    return [datetime.fromisoformat(time) for time in found]


def lease_holder(cluster: Cluster) -> str:
    """Name the operator's pod that leads, "" for none."""
    lease = f"lease/{RELEASE}-operator"
    path = "jsonpath={.spec.holderIdentity}"
    return cluster.kubectl("-n", NAMESPACE, "get", lease, "-o", path).partition("_")[0]


def kill_for_good(pod: Pod) -> None:
    """Kill a pod's process with SIGKILL, and let nothing take its place in the pod."""
    pod.kill()
    # Else its kubelet would start it again, and an operator would take its own lease back.
    pod.delete(forced=True)


@contextmanager
def without_apiserver(cluster: Cluster) -> Iterator[None]:
    """Have no API server; it answers again afterwards."""
    node = control_plane(cluster)
    # The kubelet restarts what has a manifest. Killed, it does not wait for its clients.
    stop = f"mv {_APISERVER} {_ASIDE}; pkill -KILL -x kube-apiserver"
    try:
        in_node(cluster, node, stop, "stopping the API server")
        yield
    finally:
        start = f"if [ -e {_ASIDE} ]; then mv {_ASIDE} {_APISERVER}; fi"
        in_node(cluster, node, start, "starting the API server")
    eventually(lambda: _answers(cluster), "the API server answers", _API_SECONDS)


def operator_pods(cluster: Cluster) -> list[Pod]:
    """Return the operator's pods as targets of faults."""
    listed = cluster.kubectl("-n", NAMESPACE, "get", "pods", *OPERATOR_PODS, "-o", "json")
    return [
        Pod(cluster, NAMESPACE, pod["metadata"]["name"], container="operator")
        for pod in json.loads(listed)["items"]
        if "deletionTimestamp" not in pod["metadata"]
    ]


@contextmanager
def scaled_to_zero(cluster: Cluster, namespace: str, deployment: str) -> Iterator[None]:
    """Have no pod of a Deployment; it is available again afterwards."""
    scope = ("-n", namespace)
    path = ("-o", "jsonpath={.spec.replicas}")
    replicas = cluster.kubectl(*scope, "get", deployment, *path)
    try:
        cluster.kubectl(*scope, "scale", deployment, "--replicas=0")
        yield
    finally:
        cluster.kubectl(*scope, "scale", deployment, f"--replicas={replicas}")
        cluster.kubectl(*scope, "rollout", "status", deployment, "--timeout=120s")


def without_operator(cluster: Cluster) -> AbstractContextManager[None]:
    """Have no operator."""
    return scaled_to_zero(cluster, NAMESPACE, OPERATOR)


def without_dns(cluster: Cluster) -> AbstractContextManager[None]:
    """Have no CoreDNS: no name of a Service or pod resolves. Raises NoNodeError."""
    require_own(cluster, "stopping CoreDNS")
    return scaled_to_zero(cluster, "kube-system", "deployment/coredns")


@contextmanager
def progress_unreachable(cluster: Cluster) -> Iterator[None]:
    """Drop the operator's requests for /progress, as a network policy may; all else passes."""
    rule = f"OUTPUT -p tcp --dport {_PROGRESS_PORT} -j DROP"
    pods = operator_pods(cluster)
    try:
        for pod in pods:
            pod.in_network(f"iptables --wait -A {rule}")
        yield
    finally:
        for pod in pods:
            # The rule is gone with a pod that is, and another one may not have got it.
            with suppress(ClusterError):
                pod.in_network(f"iptables --wait -D {rule}")


@contextmanager
def no_room(cluster: Cluster) -> Iterator[None]:
    """Have no node that takes new pods; those that run stay. Raises NoNodeError."""
    require_own(cluster, "cordoning all nodes")
    # One that its owner has cordoned stays so.
    free = ("--field-selector=spec.unschedulable=false",)
    nodes = cluster.kubectl("get", "nodes", *free, "-o", "name").split()
    try:
        for node in nodes:
            cluster.kubectl("cordon", node)
        yield
    finally:
        for node in nodes:
            cluster.kubectl("uncordon", node)


@contextmanager
def tolerated(cluster: Cluster, taint: str) -> Iterator[None]:
    """Have the pods of Deployments and DaemonSets stay on nodes with a taint of this key.

    Raises NoNodeError.
    """
    require_own(cluster, "a taint on all nodes")
    kinds = ("deployments,daemonsets", "--all-namespaces")
    found = json.loads(cluster.kubectl("get", *kinds, "-o", "json"))["items"]
    try:
        for each in found:
            _set_tolerations(cluster, each, {"key": taint, "operator": "Exists"})
        for each in found:
            name = f"{each['kind'].lower()}/{each['metadata']['name']}"
            scope = ("-n", each["metadata"]["namespace"])
            cluster.kubectl(*scope, "rollout", "status", name, "--timeout=120s")
        yield
    finally:
        for each in found:
            _set_tolerations(cluster, each)


def _set_tolerations(cluster: Cluster, workload: dict[str, Any], *more: dict[str, str]) -> None:
    """Give pods their own tolerations and more; it replaces those that have others."""
    own = workload["spec"]["template"]["spec"].get("tolerations") or []
    patch = {"spec": {"template": {"spec": {"tolerations": [*own, *more]}}}}
    name = f"{workload['kind'].lower()}/{workload['metadata']['name']}"
    scope = ("-n", workload["metadata"]["namespace"])
    cluster.kubectl(*scope, "patch", name, "--type=merge", "-p", json.dumps(patch))


@contextmanager
def no_pods_allowed(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Have a quota of 0 pods in a namespace."""
    scope = ("-n", namespace)
    cluster.kubectl(*scope, "create", "quota", _QUOTA, "--hard=pods=0")

    def is_known() -> str:
        return cluster.kubectl(*scope, "get", "quota", _QUOTA, "-o", "jsonpath={.status.hard.pods}")

    try:
        eventually(is_known, "the quota is in force", 30)
        yield
    finally:
        cluster.kubectl(*scope, "delete", "quota", _QUOTA)


def _answers(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=5s")
    except ClusterError:
        return False
    return True
