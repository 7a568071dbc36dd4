"""The real Kueue in a cluster of ours, as a process of its control plane's node."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from e2e.faults import NoNodeError, control_plane
from e2e.install import CHART, NAMESPACE, OPERATOR_PODS, RELEASE, helm
from tools import kueue
from tools.cluster import Cluster, ClusterError, kind
from tools.cluster.binaries import binary
from tools.cluster.in_node import folder_of, running
from tools.kueue import made
from tools.waiting import eventually

_Object = dict[str, Any]

_PORT, _HEALTH = 9443, "127.0.0.1:8091"
_START_SECONDS = 90
_KNOWN_SECONDS = 60
_IN_NAMESPACES = "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io"
_QUEUES = ",".join(
    f"{each}.kueue.x-k8s.io"
    for each in ("clusterqueues", "resourceflavors", "workloadpriorityclasses")
)


@dataclass(frozen=True, slots=True)
class Kueue:
    """A running Kueue."""

    cluster: Cluster

    def queue(self, name: str, namespace: str, **quota: str) -> None:
        """Make a ClusterQueue with this quota by resource, and a LocalQueue, both of one name."""
        resources = [{"name": each, "nominalQuota": amount} for each, amount in quota.items()]
        group = {
            "coveredResources": [*quota],
            "flavors": [{"name": name, "resources": resources}],
        }
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        self.apply(
            made("ResourceFlavor", name, spec={}),
            made("ClusterQueue", name, spec=spec),
            made("LocalQueue", name, namespace, spec={"clusterQueue": name}),
        )

    def priority(self, name: str, value: int) -> None:
        """Make a WorkloadPriorityClass."""
        self.apply(made("WorkloadPriorityClass", name, value=value))

    def apply(self, *objects: _Object) -> None:
        """Apply objects; CRDs of Kueue are too large for kubectl's annotation."""
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.cluster.kubectl("apply", "--server-side", "-f", "-", text_in=listed)


@contextmanager
def used(cluster: Cluster) -> Iterator[Kueue]:
    """Have Kueue for the time of the block, and the installed operator use it.

    Raises NoNodeError.
    """
    _let_operator_use_it(cluster, "true")
    try:
        with installed(cluster) as kueue:
            eventually(lambda: _is_known(cluster), "the operator knows of Kueue", _KNOWN_SECONDS)
            yield kueue
    finally:
        _let_operator_use_it(cluster, "false")


def _is_known(cluster: Cluster) -> bool:
    """Tell whether the operator has found that it may use it: it looks every 15 s."""
    logs = cluster.kubectl("-n", NAMESPACE, "logs", *OPERATOR_PODS, "--tail=-1")
    return "Kueue can be used: yes" in logs


def _let_operator_use_it(cluster: Cluster, value: str) -> None:
    helm(
        cluster,
        *("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, "--reuse-values"),
        *("--set", f"scheduling.kueue={value}", "--wait"),
    )


@contextmanager
def installed(cluster: Cluster) -> Iterator[Kueue]:
    """Have Kueue in the cluster for the time of the block; its API goes with it.

    Raises NoNodeError.
    """
    if cluster.engine is None:
        raise NoNodeError("Kueue: the cluster of your KUBECONFIG is not ours to enter")
    program, found = binary("kueue", cluster.say), Kueue(cluster)
    place = folder_of(program)
    with TemporaryDirectory(prefix="kueue-") as name:
        folder = Path(name)
        files = kueue.certificates(folder)
        (folder / "config").write_text(json.dumps(kueue.configuration(_PORT, _HEALTH, place)))
        (folder / "kubeconfig").write_text(kind.kubeconfig_of_nodes(cluster.engine, cluster.name))
        crds, hooks = kueue.crds(_PORT, files["ca.crt"]), kueue.webhooks(_PORT, files["ca.crt"])
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kueue.NAMESPACE}}
        flags = (f"--config={place}/config", f"--kubeconfig={place}/kubeconfig")
        try:
            found.apply(*crds, space)
            found.apply(kueue.secret(files), *hooks)
            node = control_plane(cluster)
            with running(cluster.engine, node, program, *flags, files=folder):
                eventually(lambda: _serves(found), "Kueue serves", _START_SECONDS)
                try:
                    yield found
                finally:
                    # It alone takes its finalizers from them.
                    gone = ("--all", "--timeout=60s")
                    cluster.kubectl("delete", _IN_NAMESPACES, "--all-namespaces", *gone)
                    cluster.kubectl("delete", _QUEUES, *gone)
        finally:
            rest = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*hooks, space, *crds]})
            cluster.kubectl("delete", "--ignore-not-found", "-f", "-", text_in=rest)


def _serves(found: Kueue) -> bool:
    """Tell whether its webhooks answer: without them its API takes no objects."""
    try:
        found.apply(made("ResourceFlavor", "any", spec={}))
    except ClusterError:
        return False
    return True
