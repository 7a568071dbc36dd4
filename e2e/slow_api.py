"""An API server that is slow and fails now and then, for the operator alone.

Its pods' connections to the API server are led through a proxy in a pod (`slow_proxy`), which
needs no key: it never looks into them. The jobs, the kubelet and the tests see nothing of it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from e2e.install import NAMESPACE, OPERATOR
from e2e.platform_faults import operator_pods
from tools.cluster import Cluster, ClusterError
from tools.waiting import eventually

_NAME = "slow-api"
_PORT = 18443
_PROGRAM = Path(__file__).with_name("slow_proxy.py")


@contextmanager
def slow_api(cluster: Cluster, *, seconds: float, failing: float) -> Iterator[None]:
    """Delay each request of the operator by so many seconds, and break this share of them."""
    real = cluster.kubectl("get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
    pods = operator_pods(cluster)
    scope = ("-n", NAMESPACE)
    proxy = json.dumps(_proxy(_image(cluster), real, seconds, failing))
    cluster.kubectl(*scope, "apply", "-f", "-", text_in=proxy)
    try:
        cluster.kubectl(*scope, "wait", "--for=condition=Ready", f"pod/{_NAME}", "--timeout=60s")
        path = ("-o", "jsonpath={.status.podIP}")
        address = cluster.kubectl(*scope, "get", f"pod/{_NAME}", *path)
        to_api = f"OUTPUT -d {real} -p tcp --dport 443"
        lead = f"iptables --wait -t nat -{{}} {to_api} -j DNAT --to-destination {address}:{_PORT}"
        # What is connected by now has to connect again.
        end = f"iptables --wait -{{}} {to_api} -j REJECT --reject-with tcp-reset"
        try:
            for pod in pods:
                pod.in_network(f"{lead.format('A')}; {end.format('A')}")
            yield
        finally:
            for pod in pods:
                # The rules are gone with a pod that is, and another one may not have got them.
                with suppress(ClusterError):
                    pod.in_network(f"{lead.format('D')}; {end.format('D')}")
    finally:
        cluster.kubectl(*scope, "delete", f"pod/{_NAME}", "--grace-period=2", "--wait=true")
    eventually(lambda: len(operator_pods(cluster)) > 0, "the operator's pods", 60)


def _image(cluster: Cluster) -> str:
    path = ("-o", "jsonpath={.spec.template.spec.containers[0].image}")
    return cluster.kubectl("-n", NAMESPACE, "get", OPERATOR, *path)


def _proxy(image: str, host: str, seconds: float, failing: float) -> dict[str, Any]:
    arguments = [str(_PORT), host, str(seconds), str(failing)]
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": _NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", _PROGRAM.read_text(), *arguments],
        "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
        "securityContext": security,
    }
    spec = {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _NAME}, "spec": spec}
