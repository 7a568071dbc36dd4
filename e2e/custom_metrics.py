"""The API of custom metrics in a cluster of ours: a real Prometheus and prometheus-adapter.

Both are processes of the control plane's node. Prometheus scrapes what the chart's PodMonitor
selects; the adapter serves it to HorizontalPodAutoscalers.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from e2e.faults import NoNodeError, control_plane
from e2e.prometheus import rendered
from e2e.prometheus_config import from_node, scrape_configs
from tools import custom_metrics as adapters
from tools.cluster import Cluster, ClusterError, kind
from tools.cluster.in_node import folder_of, running
from tools.waiting import eventually

_Object = dict[str, Any]

_PROMETHEUS_PORT, _ADAPTER_PORT = 9490, 9491
_START_SECONDS = 60


@contextmanager
def custom_metrics(cluster: Cluster, prometheus: Path, adapter: Path) -> Iterator[None]:
    """Have the API of custom metrics for the time of the block. Raises NoNodeError."""
    if cluster.engine is None:
        raise NoNodeError("custom metrics: the cluster of your KUBECONFIG is not ours to enter")
    engine, node = cluster.engine, control_plane(cluster)
    place = folder_of(prometheus)
    scraping = (
        f"--config.file={place}/scraping",
        f"--storage.tsdb.path={place}/data",
        f"--web.listen-address=127.0.0.1:{_PROMETHEUS_PORT}",
        "--scrape.discovery-reload-interval=1s",
        "--log.level=warn",
    )
    serving = adapters.flags(
        folder_of(adapter), port=_ADAPTER_PORT, prometheus_port=_PROMETHEUS_PORT
    )
    with TemporaryDirectory(prefix="custom-metrics-") as name:
        folder = Path(name)
        (folder / "kubeconfig").write_text(kind.kubeconfig_of_nodes(engine, cluster.name))
        (folder / "scraping").write_text(json.dumps(_scraping(cluster, place)))
        (folder / "rules").write_text(json.dumps(adapters.rules()))
        with (
            running(engine, node, prometheus, *scraping, files=folder),
            running(engine, node, adapter, *serving, files=folder),
        ):

            def serves() -> bool:
                url = f"https://127.0.0.1:{_ADAPTER_PORT}"
                ask = ("kubectl", f"--server={url}", "--insecure-skip-tls-verify", "get")
                try:
                    engine.docker("exec", node, *ask, "--raw=/readyz")
                except ClusterError:
                    return False
                return True

            # An API that is announced and not served disturbs the discovery of all clients.
            eventually(serves, "prometheus-adapter serves", _START_SECONDS)
            with _announced(cluster):
                yield


@contextmanager
def _announced(cluster: Cluster) -> Iterator[None]:
    """Have the API server pass requests for custom metrics on to the adapter."""
    objects = adapters.announcement(_ADAPTER_PORT)
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    try:
        cluster.kubectl("apply", "-f", "-", text_in=listed)
        available = ("--for=condition=Available", f"apiservice/{adapters.APISERVICE}")
        cluster.kubectl("wait", *available, f"--timeout={_START_SECONDS}s")
        yield
    finally:
        gone = ("--ignore-not-found", "--wait=false")
        cluster.kubectl("delete", *gone, "-f", "-", text_in=listed)


def _scraping(cluster: Cluster, place: str) -> _Object:
    """Return the configuration of a Prometheus that scrapes all jobs."""
    monitors = [each for each in rendered(cluster) if each["kind"] == "PodMonitor"]
    return {"scrape_configs": scrape_configs(monitors, from_node(f"{place}/kubeconfig"))}
