"""A real Prometheus on this machine: scrapes the operator and the jobs of a cluster.

What it scrapes and its alerts are what the chart renders; `prometheus_config` translates.
"""

import json
import math
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from e2e.api import open_api
from e2e.install import CHART, NAMESPACE, RELEASE
from e2e.prometheus_config import scrape_configs, shortened, through_api_server
from tools.cluster import Cluster, ClusterError
from tools.cluster.shell import bound, run
from tools.ports import free_port
from tools.waiting import eventually

_Object = dict[str, Any]

SCRAPE_SECONDS = 2
FIRE_SECONDS = 2
"""After this time an alert fires that the chart lets wait for minutes."""

_START_SECONDS = 30
_QUERY_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """The present value of one series."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    port: int

    def query(self, expression: str) -> list[Sample]:
        """Return the series that an instant query finds. Raises ClusterError if it is refused."""
        form = urllib.parse.urlencode({"query": expression}).encode()
        found = self._ask("/api/v1/query", form)
        return [Sample(each["metric"], float(each["value"][1])) for each in found["result"]]

    def numbers(self, expression: str) -> list[float]:
        """Return the values that an instant query finds; a quantile of nothing is none."""
        return [each.value for each in self.query(expression) if not math.isnan(each.value)]

    def firing(self, alert: str) -> list[Mapping[str, str]]:
        """Return the labels of each firing alert of this name."""
        return [
            each["labels"]
            for each in self._ask("/api/v1/alerts")["alerts"]
            if each["labels"]["alertname"] == alert and each["state"] == "firing"
        ]

    def has_fired(self, alert: str, labels: str) -> bool:
        """Whether an alert with these labels has fired since this server runs."""
        selected = f'ALERTS{{alertname="{alert}", alertstate="firing", {labels}}}'
        return bool(self.query(f"last_over_time({selected}[1h])"))

    def is_ready(self) -> bool:
        """Whether it serves queries."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=1).close()
        except OSError:
            return False
        return True

    def _ask(self, path: str, form: bytes | None = None) -> _Object:
        address = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(address, form, timeout=_QUERY_SECONDS) as answer:
                found: _Object = json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            raise ClusterError(f"Prometheus refuses {form!r}: {error.read().decode()}") from error
        return found


@contextmanager
def prometheus(cluster: Cluster, program: Path) -> Iterator[Prometheus]:
    """Have a Prometheus that scrapes the operator and all jobs for the time of the block."""
    with open_api(cluster) as api, TemporaryDirectory(prefix="prometheus-") as name:
        folder = Path(name)
        _write_config(folder, rendered(cluster), api.port)
        server = Prometheus(free_port())
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                _command(program, folder, server.port), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            eventually(
                lambda: process.poll() is not None or server.is_ready(),
                "Prometheus is ready",
                _START_SECONDS,
            )
            if process.poll() is not None:
                raise ClusterError(f"Prometheus does not start:\n{(folder / 'log').read_text()}")
            yield server
        finally:
            process.terminate()
            process.wait()


def rendered(cluster: Cluster) -> list[_Object]:
    """Return the objects for the Prometheus operator as the chart renders them."""
    values = {
        "metrics.serviceMonitor": {"enabled": True, "interval": f"{SCRAPE_SECONDS}s"},
        "metrics.podMonitor": {"enabled": True, "interval": f"{SCRAPE_SECONDS}s"},
        "metrics.alerts": {"enabled": True},
        # Without a reader the chart refuses to monitor isolated jobs. The API server, through
        # which they are scraped, is none: it connects from a node.
        "jobs.networkPolicy.readers": [{"podSelector": {}}],
    }
    settings = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    shown = "--show-only=templates/metrics.yaml"
    chart = (RELEASE, str(CHART), "--namespace", NAMESPACE)
    return [*yaml.safe_load_all(run([cluster.tool("helm"), "template", *chart, shown, *settings]))]


def _write_config(folder: Path, objects: list[_Object], api_port: int) -> None:
    rules = [each for each in objects if each["kind"] == "PrometheusRule"]
    monitors = [each for each in objects if each["kind"] in ("ServiceMonitor", "PodMonitor")]
    groups = shortened([g for rule in rules for g in rule["spec"]["groups"]], FIRE_SECONDS)
    config = {
        "global": {"evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": scrape_configs(monitors, through_api_server(api_port)),
    }
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))


def _command(program: Path, folder: Path, port: int) -> list[str]:
    return bound(
        [
            program,
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--scrape.discovery-reload-interval=1s",
            "--log.level=warn",
        ]
    )
