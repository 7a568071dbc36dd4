"""A small job, submitted while a namespace with many jobs floods the operator."""

import asyncio
import time

from bench.scale.client import connected
from bench.scale.cluster import Cluster
from bench.scale.contenders import PODS, Contender
from bench.scale.tables import Table, at_least

_LEAD_SECONDS = 1.0
"""The flood is under way by then."""
_LONGEST_SECONDS = 900.0


def measure(cluster: Cluster, contender: Contender, namespace: str, jobs: int) -> float:
    """Return the seconds from a small job's submission to its last pod, beside so many jobs."""
    for name in (namespace, f"{namespace}-flood"):
        cluster.add_namespace(name)
    with contender.started(cluster):
        return asyncio.run(_measure(cluster, contender, namespace, jobs))


async def _measure(cluster: Cluster, contender: Contender, namespace: str, jobs: int) -> float:
    flooded = f"{namespace}-flood"
    columns = ("Status",)
    async with connected(cluster.server) as client, asyncio.TaskGroup() as tasks:
        small, many = Table(), Table()
        following = []
        for table, name in ((small, namespace), (many, flooded)):
            path = f"/api/v1/namespaces/{name}/pods"
            following.append(tasks.create_task(table.follow(client, path, columns)))
            await table.begun.wait()
        flood = tasks.create_task(client.create(contender.submission(flooded, jobs)))
        await asyncio.sleep(_LEAD_SECONDS)
        async with asyncio.timeout(_LONGEST_SECONDS):
            began = time.perf_counter()
            await client.create(contender.submission(namespace, 1))
            took = await small.until(at_least(PODS)) - began
            await flood
            await many.until(at_least(jobs * PODS))
            if contender.collection is not None:
                await client.delete(
                    *(contender.collection.format(namespace=name) for name in (namespace, flooded))
                )
            for table in (small, many):
                await table.until(lambda counts: not counts)
        for task in following:
            task.cancel()
    return took
