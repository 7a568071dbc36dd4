"""One round of one contender: so many jobs created at once, run, left alone, and deleted."""

import asyncio
import time
from dataclasses import dataclass, field

from bench.scale.audit import Mark, Requests
from bench.scale.client import connected
from bench.scale.cluster import Cluster
from bench.scale.contenders import PODS, Contender, Running
from bench.scale.tables import Table, at_least

REST_SECONDS = 10.0
_LONGEST_SECONDS = 900.0
_POD_COLUMNS = ("Ready", "Status")
_RUNS = ("1/1", "Running")


@dataclass(slots=True)
class Life:
    """What one round cost; times are seconds from the first request."""

    jobs: int
    pods_exist: float = 0.0
    all_run: float = 0.0
    """Until every job says that it runs; without jobs, until every pod is ready."""
    deleted: float = 0.0
    """From the deletion of the jobs until their last pod is gone."""
    cpu: float | None = None
    """CPU seconds of the operator, from the first request until all run."""
    rest: float | None = None
    """Share of one core that it uses while nothing happens."""
    memory: float | None = None
    """Peak of its resident memory, MB."""
    stall: float | None = None
    """Longest turn of its event loop, CPU seconds."""
    requests: Requests = field(default_factory=Requests)
    """From the first request until all run."""
    rest_writes: int = 0


def live(cluster: Cluster, contender: Contender, namespace: str, jobs: int) -> Life:
    """Measure one round in a namespace of its own."""
    cluster.add_namespace(namespace)
    with contender.started(cluster) as running:
        return asyncio.run(_live(cluster, contender, running, namespace, jobs))


async def _live(
    cluster: Cluster, contender: Contender, running: Running, namespace: str, jobs: int
) -> Life:
    life = Life(jobs)
    pods_path = f"/api/v1/namespaces/{namespace}/pods"
    jobs_path = contender.collection.format(namespace=namespace) if contender.collection else None
    objects = list(contender.submission(namespace, jobs))
    async with connected(cluster.server) as client, asyncio.TaskGroup() as tasks:
        pods, states = Table(), Table()
        following = [tasks.create_task(pods.follow(client, pods_path, _POD_COLUMNS))]
        await pods.begun.wait()
        if jobs_path is not None:
            following.append(tasks.create_task(states.follow(client, jobs_path, ("State",))))
            await states.begun.wait()
        mark = await asyncio.to_thread(Mark.now, cluster.audit)
        process, moment = running.process, time.monotonic()
        if process is not None:
            process.forget_peak()
        used = process.cpu() if process is not None else 0.0
        began = time.perf_counter()
        creating = tasks.create_task(client.create(objects))
        async with asyncio.timeout(_LONGEST_SECONDS):
            life.pods_exist = await pods.until(at_least(jobs * PODS)) - began
            life.all_run = await pods.until(at_least(jobs * PODS, _RUNS)) - began
            if jobs_path is not None:
                life.all_run = await states.until(at_least(jobs, ("Running",))) - began
            await creating
        life.cpu = process.cpu() - used if process is not None else None
        end = await asyncio.to_thread(Mark.now, cluster.audit)
        life.requests = mark.since(end, contender.agents)
        if process is not None:
            used, since = process.cpu(), time.perf_counter()
            await asyncio.sleep(REST_SECONDS)
            life.rest = (process.cpu() - used) / (time.perf_counter() - since)
            rested = await asyncio.to_thread(Mark.now, cluster.audit)
            life.rest_writes = end.since(rested, contender.agents).writes.total()
        began = time.perf_counter()
        gone = (jobs_path,) if jobs_path else (pods_path, pods_path.replace("/pods", "/services"))
        await client.delete(*gone)
        async with asyncio.timeout(_LONGEST_SECONDS):
            life.deleted = await pods.until(lambda counts: not counts) - began
        life.memory = process.peak_memory() if process is not None else None
        life.stall = running.longest_stall(moment)
        for task in following:
            task.cancel()
    return life
