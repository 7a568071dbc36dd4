"""What scales jobs beside an API server: Kubernetes' controller, prometheus-adapter, Prometheus.

The chiefs are played: a page has the metrics of all, with the labels that a PodMonitor gives.
"""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.apiserver import companion, working
from tools import custom_metrics
from tools.ports import free_port
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.apiserver import ApiServer

_Object = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
_READER = {
    "apiVersion": f"{_RBAC}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "metrics-reader"},
    "rules": [
        {"apiGroups": ["custom.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ],
}
# The API server has no certificate by which the adapter could believe for whom it asks.
_ANYBODY = {
    "apiVersion": f"{_RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "metrics-reader"},
    "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "metrics-reader"},
    "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": "system:anonymous"}],
}


@dataclass
class Chiefs:
    """The metrics of all chiefs that serve any."""

    _waits: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    _speeds: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)

    def report(self, namespace: str, job: str, **waits: float) -> None:
        """Have a chief say which fraction of its time each worker waits for data: worker_0=0.5."""
        self._waits[namespace, job] = waits

    def report_speeds(self, namespace: str, job: str, **speeds: float) -> None:
        """Have a chief say how many examples per second each worker makes: worker_0=100."""
        self._speeds[namespace, job] = speeds

    def page(self) -> str:
        """Return what Prometheus reads."""
        kinds = {"input_wait_ratio": self._waits, "examples_per_second": self._speeds}
        lines = [line for name, values in kinds.items() for line in _metric(name, values)]
        return "\n".join(lines) + "\n"


def _metric(name: str, values: Mapping[tuple[str, str], Mapping[str, float]]) -> Iterator[str]:
    yield f"# TYPE tftraining_worker_{name} gauge"
    for (namespace, job), of_tasks in list(values.items()):
        chief = f'namespace="{namespace}",training_job="{job}",pod="{job}-chief-0",role="chief"'
        for task, value in of_tasks.items():
            labels = f'{chief},task="{task.replace("_", "-")}"'
            yield f"tftraining_worker_{name}{{{labels}}} {value}"


@contextmanager
def autoscaling(
    server: ApiServer, prometheus: Path, adapter: Path, controllers: Path
) -> Iterator[Chiefs]:
    """Scale what HorizontalPodAutoscalers of an API server say, every second."""
    chiefs, folder = Chiefs(), server.kubeconfig.parent
    prometheus_port, port = free_port(), free_port()
    with ExitStack() as stack:
        scraped = stack.enter_context(_serving(chiefs))
        (folder / "scraping").write_text(json.dumps(_scraping(scraped)))
        (folder / "rules").write_text(json.dumps(custom_metrics.rules()))
        scraping = (
            f"--config.file={folder}/scraping",
            f"--storage.tsdb.path={folder}/prometheus",
            f"--web.listen-address=127.0.0.1:{prometheus_port}",
        )
        serving = custom_metrics.flags(folder, port=port, prometheus_port=prometheus_port)
        stack.enter_context(companion(prometheus, folder, *scraping))
        lenient = "--authentication-tolerate-lookup-failure"
        stack.enter_context(companion(adapter, folder, *serving, lenient))
        server.apply(_READER, _ANYBODY, *custom_metrics.announcement(port))
        path = custom_metrics.API
        eventually(lambda: server.request("GET", path).ok, "custom metrics are served", 60)
        only = "--controllers=horizontal-pod-autoscaler-controller"
        often = "--horizontal-pod-autoscaler-sync-period=1s"
        stack.enter_context(working(controllers, server, only, often))
        yield chiefs


def _scraping(port: int) -> _Object:
    target = {"targets": [f"127.0.0.1:{port}"]}
    return {
        "scrape_configs": [
            {
                "job_name": "chiefs",
                "scrape_interval": "250ms",
                "honor_labels": True,
                "static_configs": [target],
            }
        ]
    }


@contextmanager
def _serving(chiefs: Chiefs) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(chiefs.page().encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
