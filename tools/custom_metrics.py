"""prometheus-adapter as a process: its rules, its flags, and what announces its API.

The rules are those of examples/autoscaling. Tests run it beside an API server, e2e in a node.
"""

from pathlib import Path
from typing import Any

import yaml

_Object = dict[str, Any]

API = "/apis/custom.metrics.k8s.io/v1beta1"
APISERVICE = "v1beta1.custom.metrics.k8s.io"
RULES = Path(__file__).parents[1] / "examples/autoscaling/prometheus-adapter.yaml"


def rules() -> _Object:
    """Return the adapter's configuration as its Helm chart makes it of the example's values."""
    values = yaml.safe_load(RULES.read_text())
    return {"rules": values["rules"]["custom"]}


def flags(folder: str | Path, *, port: int, prometheus_port: int) -> tuple[str, ...]:
    """Return the flags of an adapter on loopback; a folder has its `rules` and a `kubeconfig`."""
    kubeconfigs = ("lister", "authentication", "authorization")
    return (
        *(f"--{each}-kubeconfig={folder}/kubeconfig" for each in kubeconfigs),
        f"--config={folder}/rules",
        f"--prometheus-url=http://127.0.0.1:{prometheus_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder}/certificates",
        # How soon it knows of a metric that is new to Prometheus, and for how long of one without
        # values.
        "--metrics-relist-interval=1s",
        "--metrics-max-age=1m",
    )


def announcement(port: int) -> list[_Object]:
    """Return the objects by which the API server finds an adapter on its own loopback.

    The APIService is the first, so that it is the first to be deleted too.
    """
    service = {"name": "prometheus-adapter", "namespace": "default"}
    group, version = "custom.metrics.k8s.io", "v1beta1"
    return [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": APISERVICE},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {**service, "port": port},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": service,
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
    ]
