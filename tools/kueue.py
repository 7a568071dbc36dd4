"""The real Kueue as a process: its CRDs, webhooks, configuration and certificates.

Nothing of it lies here: CRDs and webhooks are read from its Go module, and only told the address of
the process, where a cluster would have a Service. Left out are its webhooks for kinds of others.
Tests run it beside an API server, e2e/kueue.py in a node.
"""

import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import yaml

from tools.cluster.binaries import SOURCES, module_dir
from tools.cluster.shell import ClusterError

_Object = dict[str, Any]

API = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"

_SERVICE = f"kueue-webhook-service.{NAMESPACE}.svc"
_CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")


def made(kind: str, name: str, namespace: str = "", **fields: Any) -> _Object:  # noqa: ANN401
    """Return an object of Kueue's API."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, **fields}


def crds(port: int, ca: bytes) -> list[_Object]:
    """Return Kueue's CRDs, converted by the process that listens on a port of loopback."""
    found = []
    for path in sorted((_sources() / "crd" / "bases").glob("*.yaml")):
        crd = yaml.safe_load(path.read_text())
        if crd["spec"]["names"]["plural"] in _CONVERTED:
            webhook = {
                "clientConfig": _client(port, "/convert", ca),
                "conversionReviewVersions": ["v1"],
            }
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        found.append(crd)
    return found


def webhooks(port: int, ca: bytes) -> list[_Object]:
    """Return Kueue's webhooks for its own kinds, called on a port of loopback."""
    found = []
    for raw in yaml.safe_load_all((_sources() / "webhook" / "manifests.yaml").read_text()):
        raw["metadata"]["name"] = f"kueue-{raw['metadata']['name']}"
        raw["webhooks"] = [
            {**each, "clientConfig": _client(port, each["clientConfig"]["service"]["path"], ca)}
            for each in raw["webhooks"]
            if each["rules"][0]["apiGroups"] == ["kueue.x-k8s.io"]
        ]
        found.append(raw)
    return found


def configuration(port: int, health: str, certificates: str) -> _Object:
    """Return Kueue's configuration, with the address of its probes and a folder of certificates."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": health},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": certificates},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 50, "burst": 100},
        "integrations": {
            "frameworks": ["batch/job"],
            "externalFrameworks": ["TFTrainingJob.v1alpha1.tftraining.dev"],
        },
        # Its own API server for users, which would be one more process to be reached.
        "featureGates": {"VisibilityOnDemand": False},
    }


def certificates(folder: Path) -> dict[str, bytes]:
    """Make the certificates that Kueue would make for its Service, for loopback as well.

    It takes those that it finds in its Secret, if they are as its own: an RSA key in PKCS #1.
    Raises ClusterError without openssl.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ClusterError("openssl is needed to make the certificates of Kueue's webhooks")

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


def secret(files: dict[str, bytes]) -> _Object:
    """Return the Secret in which Kueue looks for its certificates."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kueue-webhook-server-cert", "namespace": NAMESPACE},
        "data": {name: b64encode(data).decode() for name, data in files.items()},
    }


def _client(port: int, path: str, ca: bytes) -> _Object:
    return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": b64encode(ca).decode()}


def rights() -> Path:
    """Return the folder of the manifests of Kueue's account and its rights, a base of kustomize."""
    return _sources() / "rbac"


def _sources() -> Path:
    return module_dir(SOURCES["kueue"].family, "sigs.k8s.io/kueue") / "config" / "components"
