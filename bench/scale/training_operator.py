"""Kubeflow's training-operator beside ours, with TFJobs of the same pods."""

import base64
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.scale import processes
from bench.scale.cluster import Cluster
from bench.scale.contenders import ROLES, TEMPLATE, Running, job_name
from tests.apiserver import ApiServer
from tools.cluster.binaries import binary, module_dir, version
from tools.ports import free_port
from tools.waiting import meanwhile

_FAMILY, _MODULE = "training-operator", "github.com/kubeflow/training-operator"

TUNED = ("-kube-api-qps=1000", "-kube-api-burst=2000", "-controller-threads=8")

_NAMESPACE = "kubeflow"
_SECRET = "training-operator-webhook-cert"  # noqa: S105 - its name
_WEBHOOKS = "validator.training-operator.kubeflow.org"
_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - fixed in its source
_LOOK_SECONDS = 0.2


class TrainingOperator:
    """The training-operator with some flags, for TFJobs alone."""

    collection = "/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs"
    agents = ("training-operator",)
    asks = None
    only_creates = False

    def __init__(self, name: str, *flags: str) -> None:
        self.name = f"training-operator {version(_FAMILY, _MODULE).removeprefix('v')}, {name}"
        self._flags = flags

    def crds(self) -> Sequence[Path]:
        """Return that of TFJobs, from its module."""
        folder = module_dir(_FAMILY, _MODULE) / "manifests" / "base" / "crds"
        return (folder / "kubeflow.org_tfjobs.yaml",)

    @contextmanager
    def started(self, cluster: Cluster, *, asking: bool) -> Iterator[Running]:  # noqa: ARG002
        """Run its process. Nobody calls its webhooks, which costs it nothing."""
        _prepare(cluster.server)
        probes = f"127.0.0.1:{free_port()}"
        command: list[str | Path] = [
            binary("training-operator"),
            "-enable-scheme=tfjob",
            f"-health-probe-bind-address={probes}",
            f"-metrics-bind-address=127.0.0.1:{free_port()}",
            f"-webhook-server-port={free_port()}",
            *self._flags,
        ]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(cluster.folder),
            "KUBECONFIG": str(cluster.server.kubeconfig),
        }
        log, ready = cluster.folder / "training-operator.log", f"http://{probes}/readyz"
        with (
            meanwhile(lambda end: _mount_certificates(cluster.server, end)),
            processes.running(command, environment, log, ready) as process,
        ):
            yield Running((process,))

    def submission(self, namespace: str, jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield TFJobs."""
        for number in range(jobs):
            yield self.collection.format(namespace=namespace), _tfjob(job_name(number))


def _prepare(server: ApiServer) -> None:
    """Create what it expects of its installation."""
    server.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": _WEBHOOKS},
        },
    )
    # Empty at first: it puts its certificates there, and must not find them taken away again.
    server.request(
        "POST",
        f"/api/v1/namespaces/{_NAMESPACE}/secrets",
        {"metadata": {"name": _SECRET, "namespace": _NAMESPACE}},
    )


def _mount_certificates(server: ApiServer, end: threading.Event) -> None:
    """Do what the kubelet does for its pod: put the Secret's content where it looks for files."""
    path = f"/api/v1/namespaces/{_NAMESPACE}/secrets/{_SECRET}"
    while "tls.crt" not in (data := server.request("GET", path).body.get("data") or {}):
        if end.wait(_LOOK_SECONDS):
            return
    _CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, content in data.items():
        (_CERTIFICATES / name).write_bytes(base64.b64decode(content))


def _tfjob(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {
            "tfReplicaSpecs": {
                _REPLICA_TYPES[role]: {
                    "replicas": count,
                    # Its only policy under which the operator itself replaces a failed pod.
                    "restartPolicy": "ExitCode",
                    "template": TEMPLATE,
                }
                for role, count in ROLES.items()
            }
        },
    }


_REPLICA_TYPES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
