"""From apply to all pods created: the operator against the client alone, on one API server.

Both create the same objects (one service, eight pods) on the same kube-apiserver, alternating, so
that the machine's mood weighs on both alike. The clock runs from the request that starts each
(creating the job, or the first object) to the watch event of the last pod.
"""

import asyncio
import json
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console
from rich.table import Table
from tftraining_operator.api.keys import API_VERSION, KIND, PLURAL
from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core import desired
from tftraining_operator.core.job import parse_job
from tftraining_operator.core.observed import slots
from tftraining_operator.reconcile.store import Kind

from tests.apiserver import PROGRAMS, ApiServer, running
from tests.integration.process import Operator
from tools.cluster.binaries import binary
from tools.interrupts import raised

ROUNDS = 40
WARM_UP = 3
LIMIT = 1.5
IMAGE = "tftraining/trainer:bench"
CRDS = Path(__file__).parents[1] / "crds"
SPEC = {
    "template": {"spec": {"containers": [{"name": "tensorflow", "image": IMAGE}]}},
    "worker": {"replicas": 5},
    "ps": {"replicas": 2},
}
PODS = 8

console = Console(highlight=False)
_Object = dict[str, Any]


def main() -> int:
    """Measure and print; return 1 when the operator takes more than LIMIT times as long."""
    programs = {name: binary(name) for name in PROGRAMS}
    with raised(), running(programs) as server, tempfile.TemporaryDirectory() as folder:
        server.serve_crd(CRDS)
        operator = Operator(server.kubeconfig, Path(folder) / "log")
        operator.start()
        try:
            with_operator, direct = asyncio.run(_measure(server))
        finally:
            operator.stop()
    return _report(with_operator, direct)


async def _measure(server: ApiServer) -> tuple[list[float], list[float]]:
    cluster = await KubernetesApi.connect(str(server.kubeconfig))
    with_operator, direct = [], []
    try:
        for number in range(ROUNDS + WARM_UP):
            a = await _by_operator(server, f"operator-{number}")
            b = await _by_client(server, cluster, f"direct-{number}")
            if number >= WARM_UP:
                with_operator.append(a)
                direct.append(b)
    finally:
        await cluster.close()
    return with_operator, direct


async def _by_operator(server: ApiServer, namespace: str) -> float:
    async with _all_created(server, namespace) as (session, done):
        url = f"{server.url}/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}"
        began = time.perf_counter()
        async with session.post(url, json=_job()) as answer:
            answer.raise_for_status()
        return await done - began


async def _by_client(server: ApiServer, cluster: KubernetesApi, namespace: str) -> float:
    raw = _job()
    raw["metadata"] |= {"namespace": namespace, "uid": "00000000-0000-0000-0000-000000000000"}
    job = parse_job(raw, datetime.now(UTC))
    objects = [(Kind.SERVICE, desired.service(job))]
    objects += [(Kind.POD, desired.pod(job, role, i, 0, IMAGE)) for role, i, _ in slots(job)]
    async with _all_created(server, namespace) as (_, done):
        began = time.perf_counter()
        await asyncio.gather(*(cluster.create(kind, body) for kind, body in objects))
        return await done - began


@asynccontextmanager
async def _all_created(
    server: ApiServer, namespace: str
) -> AsyncIterator[tuple[aiohttp.ClientSession, "asyncio.Task[float]"]]:
    """Make a namespace and yield a task that ends when its last pod is seen in a watch."""
    tls = ssl.create_default_context(cafile=str(server.ca))
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {server.token}"},
        connector=aiohttp.TCPConnector(ssl=tls),
    ) as session:
        async with session.post(
            f"{server.url}/api/v1/namespaces", json={"metadata": {"name": namespace}}
        ) as answer:
            answer.raise_for_status()
        watching = asyncio.Event()
        task = asyncio.create_task(_last_pod(session, server.url, namespace, watching))
        await watching.wait()
        yield session, task


async def _last_pod(
    session: aiohttp.ClientSession, url: str, namespace: str, watching: asyncio.Event
) -> float:
    seen = 0
    path = f"{url}/api/v1/namespaces/{namespace}/pods?watch=true&timeoutSeconds=60"
    async with session.get(path) as stream:
        watching.set()
        async for line in stream.content:
            seen += json.loads(line)["type"] == "ADDED"
            if seen == PODS:
                return time.perf_counter()
    raise RuntimeError(f"only {seen} of {PODS} pods were created within a minute")


def _job() -> _Object:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "job"}, "spec": SPEC}


def _report(with_operator: list[float], direct: list[float]) -> int:
    ratios = [a / b for a, b in zip(with_operator, direct, strict=True)]
    table = Table(title=f"from apply to {PODS} pods created, {ROUNDS} rounds, alternating")
    for column in ("", "min", "median", "max"):
        table.add_column(column, justify="left" if not column else "right")
    for name, values in (("operator, ms", with_operator), ("client alone, ms", direct)):
        table.add_row(name, *(f"{f(values) * 1000:.1f}" for f in (min, statistics.median, max)))
    table.add_row("ratio", *(f"{f(ratios):.2f}" for f in (min, statistics.median, max)))
    console.print(table)
    ratio = statistics.median(with_operator) / statistics.median(direct)
    good = ratio <= LIMIT
    console.print(f"ratio of the medians {ratio:.2f} ({'within' if good else 'ABOVE'} {LIMIT})")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
