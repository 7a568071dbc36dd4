"""Many jobs that train and report: what they cost the operator, and how fast it still is."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web
from tftraining_operator.api.keys import PROGRESS_PORT

from bench.scale.audit import Mark, Requests
from bench.scale.client import Client, connected
from bench.scale.cluster import Cluster
from bench.scale.contenders import Ours, Running
from bench.scale.tables import Table, at_least

STEPS_PER_SECOND = 10.0
TOTAL_STEPS = 36_000
"""An hour of training: of a thousand such jobs, one makes its next percent every 36 ms."""

_SETTLE_SECONDS = 30.0
_START_SECONDS = 900.0
_FAILURES = 20


@dataclass(slots=True)
class Steady:
    """What so many reporting jobs cost."""

    jobs: int
    seconds: float
    cpu: float = 0.0
    """Share of one core."""
    memory: float = 0.0
    """Peak of resident memory (MB) from before the first job on."""
    stall: float = 0.0
    """Longest turn of the event loop, CPU seconds, while the jobs run."""
    start_stall: float = 0.0
    """The same, while they are created."""
    requests: Requests = field(default_factory=Requests)
    replacements: list[float] = field(default_factory=list)
    """Seconds from a worker's failure to the pod that replaces it."""


def measure(cluster: Cluster, ours: Ours, namespace: str, jobs: int, seconds: float) -> Steady:
    """Run jobs whose chiefs and evaluators report progress; measure `seconds` of it."""
    cluster.add_namespace(namespace)
    found = Steady(jobs, seconds)
    with ours.started(cluster) as running:
        asyncio.run(_measure(cluster, ours, running, namespace, found))
    return found


async def _measure(
    cluster: Cluster, ours: Ours, running: Running, namespace: str, found: Steady
) -> None:
    process, jobs = running.process, found.jobs
    if process is None:
        raise RuntimeError("there is no operator to measure")
    pods_path = f"/api/v1/namespaces/{namespace}/pods"
    jobs_path = ours.collection.format(namespace=namespace)
    async with (
        reporting(),
        connected(cluster.server) as client,
        asyncio.TaskGroup() as tasks,
    ):
        pods, states = Table(), Table()
        following = [
            tasks.create_task(pods.follow(client, pods_path, ("Ready", "Status"))),
            tasks.create_task(states.follow(client, jobs_path, ("State",))),
        ]
        await pods.begun.wait()
        await states.begun.wait()
        process.forget_peak()
        moment = time.monotonic()
        async with asyncio.timeout(_START_SECONDS):
            await client.create(ours.submission(namespace, jobs))
            await states.until(at_least(jobs, ("Running",)))
        await asyncio.sleep(_SETTLE_SECONDS)
        found.start_stall = running.longest_stall(moment) or 0.0
        mark = await asyncio.to_thread(Mark.now, cluster.audit)
        used, began, moment = process.cpu(), time.perf_counter(), time.monotonic()
        await asyncio.sleep(found.seconds)
        found.cpu = (process.cpu() - used) / (time.perf_counter() - began)
        found.stall = running.longest_stall(moment) or 0.0
        end = await asyncio.to_thread(Mark.now, cluster.audit)
        found.requests = mark.since(end, ours.agents)
        for number in range(min(_FAILURES, jobs)):
            found.replacements.append(await _replacement(client, pods_path, f"job-{number}"))
        found.memory = process.peak_memory()
        await client.delete(jobs_path)
        async with asyncio.timeout(_START_SECONDS):
            await pods.until(lambda counts: not counts)
        for task in following:
            task.cancel()


async def _replacement(client: Client, pods_path: str, job: str) -> float:
    """Fail a job's worker as its kubelet does; return how long it takes to be replaced."""
    url = f"{client.url}{pods_path}/{job}-worker-1"
    async with client.session.get(url) as answer:
        before = (await answer.json())["metadata"]["uid"]
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": _now()}
    status = {"name": "tensorflow", "image": "any", "imageID": "", "ready": False}
    began = time.perf_counter()
    await client.merge(
        f"{pods_path}/{job}-worker-1/status",
        {
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": _now()}],
                "containerStatuses": [
                    {**status, "restartCount": 0, "state": {"terminated": ended}}
                ],
            }
        },
    )
    while True:
        async with client.session.get(url) as answer:
            found = await answer.json()
            if answer.ok and found["metadata"]["uid"] != before:
                return time.perf_counter() - began
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def reporting() -> AsyncIterator[None]:
    """Answer for every pod at /progress: a training that has begun when it was first asked."""
    began: dict[str, float] = {}

    async def answer(request: web.Request) -> web.Response:
        now = time.monotonic()
        step = int((now - began.setdefault(request.host, now)) * STEPS_PER_SECOND)
        return web.json_response(
            {
                "version": 1,
                "role": "chief",
                "attempt": 0,
                "phase": "training",
                "step": min(step, TOTAL_STEPS),
                "totalSteps": TOTAL_STEPS,
                "stepsPerSecond": STEPS_PER_SECOND,
                "secondsSinceStep": 0.1,
                "metrics": {"loss": 1 / (1 + step), "accuracy": 0.9},
                "lastCheckpoint": {
                    "step": step // 600 * 600,
                    "path": f"/checkpoints/ckpt-{step // 600 * 600}",
                    "time": _now(),
                },
                "updatedAt": _now(),
            }
        )

    app = web.Application()
    app.router.add_get("/progress", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "0.0.0.0", PROGRESS_PORT).start()  # noqa: S104 - all of 127/8
        yield
    finally:
        await runner.cleanup()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
