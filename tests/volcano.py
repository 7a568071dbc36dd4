"""The real Volcano as processes beside a test's API server: scheduler, controllers and webhooks.

Nothing of it lies here: CRDs, webhooks and the scheduler's configuration are read from the chart in
its Go module, and the webhooks only told the address of the process.
"""

from __future__ import annotations

import subprocess
from base64 import b64encode
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import yaml

from tests.apiserver import certificate, companion
from tests.conftest import program_or_skip
from tools.cluster.binaries import SOURCES, module_dir
from tools.ports import free_port, is_listening
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer

_Object = dict[str, Any]

API = "scheduling.volcano.sh/v1beta1"


@contextmanager
def volcano(server: ApiServer, helm: Path) -> Iterator[None]:
    """Have Volcano for the time of the block; its API goes with it."""
    programs = {
        name: program_or_skip(f"volcano-{name}")
        for name in ("webhook-manager", "controller-manager", "scheduler")
    }
    sources = module_dir(SOURCES["volcano-scheduler"].family, "volcano.sh/volcano")
    folder = server.kubeconfig.parent / "volcano"
    folder.mkdir(exist_ok=True)
    key, crt = certificate(folder)
    port = free_port()
    client = (f"--kubeconfig={server.kubeconfig}",)
    elected = (*client, "--leader-elect=false")
    webhooks = _webhooks(helm, sources, port, crt.read_bytes())
    with ExitStack() as stack:
        for crd in sorted((sources / "config/crd").glob("*/bases/*.yaml")):
            name = server.serve_crd(crd, "--server-side")
            stack.callback(server.kubectl, "delete", "crd", name, "--wait=false")
        server.apply(*webhooks)
        for each in webhooks:
            what = f"{each['kind']}/{each['metadata']['name']}"
            stack.callback(server.kubectl, "delete", what, "--wait=false")
        stack.enter_context(
            companion(
                *(programs["webhook-manager"], folder, *client, f"--port={port}"),
                *("--listen-address=127.0.0.1", f"--webhook-url=https://127.0.0.1:{port}"),
                *(f"--tls-cert-file={crt}", f"--tls-private-key-file={key}"),
                f"--ca-cert-file={crt}",
            )
        )
        eventually(lambda: is_listening(port), "Volcano's webhooks listen")
        stack.enter_context(companion(programs["controller-manager"], folder, *elected))
        config = sources / "installer/helm/chart/volcano/config/volcano-scheduler.conf"
        stack.enter_context(
            companion(
                *(programs["scheduler"], folder, *elected, f"--scheduler-conf={config}"),
                "--cache-dumper=false",
            )
        )
        eventually(lambda: _is_open(server, "default"), "Volcano's default queue is open")
        yield


def queue(server: ApiServer, name: str) -> None:
    """Make a queue, and wait until Volcano has opened it."""
    metadata = {"name": name}
    body = {"apiVersion": API, "kind": "Queue", "metadata": metadata, "spec": {"weight": 1}}
    server.apply(body)
    eventually(lambda: _is_open(server, name), f"queue {name} is open")


def _is_open(server: ApiServer, name: str) -> bool:
    answer = server.request("GET", f"/apis/{API}/queues/{name}")
    return answer.ok and answer.body.get("status", {}).get("state") == "Open"


def _webhooks(helm: Path, sources: Path, port: int, ca: bytes) -> list[_Object]:
    chart = sources / "installer/helm/chart/volcano"
    command = [helm, "template", "volcano", chart, "--show-only=templates/webhooks.yaml"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[_Object] = [each for each in yaml.safe_load_all(done.stdout) if each]
    for each in (hook for one in found for hook in one["webhooks"]):
        path = each["clientConfig"]["service"]["path"]
        url = f"https://127.0.0.1:{port}{path}"
        each["clientConfig"] = {"url": url, "caBundle": b64encode(ca).decode()}
    return found
