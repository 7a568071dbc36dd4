"""The real Kueue as a process beside a test's API server: its CRDs, its webhooks, its queues.

Nothing of it lies here: CRDs and webhooks are read from its Go module, and only told the address of
the process, where a cluster would have a Service. Left out are its webhooks for kinds of others.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from tests.apiserver import StartError, companion
from tools.cluster.binaries import module_dir
from tools.ports import free_port
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.apiserver import ApiServer

_Object = dict[str, Any]

API = "kueue.x-k8s.io/v1beta2"
PATH = f"/apis/{API}"
_NAMESPACE = "kueue-system"
_SERVICE = f"kueue-webhook-service.{_NAMESPACE}.svc"
_CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")


@dataclass
class Kueue:
    """Kueue, as its administrator knows it."""

    server: ApiServer
    program: Path
    config: Path
    health: str
    _process: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start the process, and wait until its webhooks listen."""
        flags = (f"--kubeconfig={self.server.kubeconfig}", f"--config={self.config}")
        folder = self.server.kubeconfig.parent
        self._process.enter_context(companion(self.program, folder, *flags))
        eventually(self._is_ready, "Kueue is ready", 60)

    def stop(self) -> None:
        """End the process."""
        self._process.close()

    def queue(self, name: str, namespace: str, **spec: Any) -> None:
        """Make a ClusterQueue of 6 CPUs and a LocalQueue of it, both of one name."""
        flavor = {
            "name": name,
            "resources": [{"name": "cpu", "nominalQuota": "6"}],
        }
        cluster_queue = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
            "preemption": {"withinClusterQueue": "LowerPriority"},
            **spec,
        }
        labels = {"nodeLabels": {"example.com/pool": name}}
        self.server.apply(
            _made("ResourceFlavor", name, spec=labels),
            _made("ClusterQueue", name, spec=cluster_queue),
            _made("LocalQueue", name, namespace, spec={"clusterQueue": name}),
        )

    def set_quota(self, queue: str, cpus: str) -> None:
        """Give a ClusterQueue another quota."""
        found = self.server.request("GET", f"{PATH}/clusterqueues/{queue}").body["spec"]
        found["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpus
        self.change(queue, resourceGroups=found["resourceGroups"])

    def change(self, queue: str, **spec: Any) -> None:
        """Change a ClusterQueue."""
        self._patch(f"{PATH}/clusterqueues/{queue}", {"spec": spec})

    def priority(self, name: str, value: int) -> None:
        """Make a WorkloadPriorityClass."""
        self.server.apply(_made("WorkloadPriorityClass", name, value=value))

    def workload(self, namespace: str, job: str) -> _Object:
        """Read the Workload of a job, {} without one."""
        path = f"{PATH}/namespaces/{namespace}/workloads"
        selector = {"labelSelector": f"tftraining.dev/job={job}"}
        found = self.server.request("GET", path, query=selector).body.get("items") or [{}]
        return dict(found[0])

    def set_active(self, namespace: str, workload: str, *, active: bool) -> None:
        """Stop or resume a Workload, as `kueuectl stop workload` does."""
        path = f"{PATH}/namespaces/{namespace}/workloads/{workload}"
        self._patch(path, {"spec": {"active": active}})

    def _patch(self, path: str, patch: _Object) -> None:
        kind = "application/merge-patch+json"
        answer = self.server.request("PATCH", path, patch, content_type=kind)
        assert answer.ok, answer.message

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"http://{self.health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def conditions(workload: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each condition of a Workload."""
    found = (workload.get("status") or {}).get("conditions") or []
    return {each["type"]: each["status"] for each in found}


def installed(server: ApiServer, program: Path) -> Kueue:
    """Install Kueue into an API server, ready to run."""
    folder = server.kubeconfig.parent / "kueue"
    folder.mkdir()
    files = _certificates(folder)
    sources = module_dir("kueue", "sigs.k8s.io/kueue") / "config" / "components"
    port, health = free_port(), f"127.0.0.1:{free_port()}"
    ca = b64encode(files["ca.crt"]).decode()
    crds = [
        yaml.safe_load(path.read_text())
        for path in sorted((sources / "crd" / "bases").glob("*.yaml"))
    ]
    for crd in crds:
        if crd["spec"]["names"]["plural"] in _CONVERTED:
            client = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": ca}
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    listed = {"apiVersion": "v1", "kind": "List", "items": crds}
    server.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))
    plurals = [crd["spec"]["names"]["plural"] for crd in crds]
    eventually(
        lambda: all(server.request("GET", f"{PATH}/{plural}").ok for plural in plurals),
        "Kueue's API is served",
        60,
    )
    server.kubectl("create", "namespace", _NAMESPACE)
    secret = {name: b64encode(data).decode() for name, data in files.items()}
    server.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "kueue-webhook-server-cert", "namespace": _NAMESPACE},
            "data": secret,
        },
        *_webhooks(sources / "webhook" / "manifests.yaml", port, ca),
    )
    config = folder / "config.yaml"
    config.write_text(json.dumps(_config(port, health, folder)))
    return Kueue(server, program, config, health)


def _config(port: int, health: str, folder: Path) -> _Object:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "health": {"healthProbeBindAddress": health},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 50, "burst": 100},
        "integrations": {
            "frameworks": ["batch/job"],
            "externalFrameworks": ["TFTrainingJob.v1alpha1.tftraining.dev"],
        },
        # Its own API server for users, which would be one more process to be reached.
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
    }


def _webhooks(manifests: Path, port: int, ca: str) -> list[_Object]:
    found = []
    for raw in yaml.safe_load_all(manifests.read_text()):
        raw["metadata"]["name"] = f"kueue-{raw['metadata']['name']}"
        raw["webhooks"] = [
            {**each, "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca}}
            for each in raw["webhooks"]
            if each["rules"][0]["apiGroups"] == ["kueue.x-k8s.io"]
            and (path := each["clientConfig"]["service"]["path"])
        ]
        found.append(raw)
    return found


def _certificates(folder: Path) -> dict[str, bytes]:
    """Make the certificates that Kueue would make for its Service, for loopback as well.

    It takes those that it finds in its Secret, if they are as its own: an RSA key in PKCS #1.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise StartError("openssl is needed to make the certificates of Kueue's webhooks")

    def run(*words: str) -> None:
        subprocess.run([openssl, *words], check=True, capture_output=True, cwd=folder)

    for name in ("ca", "tls"):
        run("genrsa", "-traditional", "-out", f"{name}.key", "2048")
    subject = ("-subj", "/O=kueue/CN=kueue-ca", "-addext", "subjectAltName=DNS:kueue-ca")
    usage = "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign"
    common = ("-x509", "-days", "3650")
    run("req", *common, "-key", "ca.key", "-out", "ca.crt", *subject, "-addext", usage)
    names = f"subjectAltName=DNS:{_SERVICE},IP:127.0.0.1"
    run(
        *("req", *common, "-CA", "ca.crt", "-CAkey", "ca.key", "-key", "tls.key"),
        *("-out", "tls.crt", "-subj", f"/CN={_SERVICE}", "-addext", names),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-addext", "keyUsage=critical,digitalSignature,keyEncipherment"),
        *("-addext", "extendedKeyUsage=serverAuth"),
    )
    return {
        name: (folder / name).read_bytes() for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")
    }


def _made(kind: str, name: str, namespace: str = "", **fields: Any) -> _Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, **fields}
