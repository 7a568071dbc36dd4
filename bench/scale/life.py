"""One round of one contender: so many jobs created at once, run, disturbed, ended and deleted."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, fields
from functools import partial

from bench.scale import disturbances, reports
from bench.scale.audit import Mark, Requests
from bench.scale.client import Client, connected
from bench.scale.cluster import Cluster
from bench.scale.contenders import PODS, Contender, Running, owned_paths
from bench.scale.tables import (
    StalledError,
    Table,
    at_least,
    created_since,
    none_of,
    quiet_seconds,
)
from tools.cluster.shell import ClusterError

REST_SECONDS = 10.0
_SETTLE_SECONDS = 15.0
"""After a start, until all pods were asked for their progress,"""
_SETTLE_SECONDS_A_JOB = 0.02
"""or so long, with very many jobs: until their first reports are written."""
_MISSING = 10
"""Pods that are missing when the operator is started again, at most."""
_POD_COLUMNS = ("Ready", "Status")
_RUNS = ("1/1", "Running")


@dataclass(slots=True)
class Life:
    """What one round cost; times are seconds, None what a contender has not."""

    jobs: int
    pods_exist: float = 0.0
    """From the first request, as the next one."""
    all_run: float = 0.0
    """Until every job says that it runs; without jobs, until every pod is ready."""
    deleted: float | None = None
    """From the deletion of the jobs until their last pod is gone."""
    cpu: float | None = None
    """CPU seconds of the operator, from the first request until all run."""
    small: float | None = None
    """From the request for one job in another namespace, just after all others, until its pods."""
    rest: float | None = None
    """Share of one core that it uses while nothing happens: all jobs have ended."""
    rest_writes: int = 0
    synced: float | None = None
    """From the start of a new process until it has replaced pods that were gone meanwhile."""
    steady: float | None = None
    """Share of one core while all jobs report their progress; of the busiest of its processes."""
    steady_writes: float | None = None
    """Writes a second meanwhile."""
    replaced: list[float] = field(default_factory=list)
    """From the failure of a worker until it was created anew, for each of some."""
    succeeded: list[float] = field(default_factory=list)
    """From the chief's exit until the job has Succeeded, for each of some."""
    memory: float | None = None
    """Peak of a process's resident memory, MB."""
    stall: float | None = None
    """Longest turn of its event loop, CPU seconds."""
    requests: Requests = field(default_factory=Requests)
    """From the first request until all run."""
    ending: Requests = field(default_factory=Requests)
    """About the jobs that have Succeeded, each from its chief's exit."""

    @property
    def created(self) -> int:
        """Number of jobs that `cpu` and `requests` are for: the small one is among them."""
        return self.jobs + (self.small is not None)

    @property
    def cpu_a_job(self) -> float | None:
        """CPU seconds of the operator for each job."""
        return None if self.cpu is None else self.cpu / self.created

    def so_far(self) -> str:
        """Say what is measured of a round that does not come to its end."""
        known = ((each.name, getattr(self, each.name)) for each in fields(self))
        told = (
            f"{name} {value:.4g}" for name, value in known if isinstance(value, float) and value
        )
        return ", ".join(told)


def live(
    cluster: Cluster, contender: Contender, namespace: str, jobs: int, steady_seconds: float
) -> Life:
    """Measure one round in a namespace of its own. Raises StalledError, or another ClusterError."""
    cluster.add_namespace(namespace)
    cluster.add_namespace(_small(namespace))
    return asyncio.run(_Round(cluster, contender, namespace, jobs, steady_seconds).live())


class _Round:
    def __init__(
        self,
        cluster: Cluster,
        contender: Contender,
        namespace: str,
        jobs: int,
        steady_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._contender = contender
        self._namespace = namespace
        self._steady_seconds = steady_seconds
        self._life = Life(jobs)
        self._running = Running()
        self._pods_path = owned_paths(namespace)[0]
        collection = contender.collection
        self._jobs_path = collection.format(namespace=namespace) if collection else None
        table = partial(Table, problem=self._problem, quiet=quiet_seconds(jobs))
        self._pods = table("pods")
        self._states = table("jobs")
        # They may come after those of all others.
        self._small = table("pods of the small job", beside=self._pods)

    async def live(self) -> Life:
        server = self._cluster.server
        connecting = connected(server.url, server.ca, server.token)
        async with connecting as client, self._followed(client):
            async with self._started(asking=False):
                await self._create(client)
                if self._contender.only_creates:
                    await self._delete(client)
            if not self._contender.only_creates:
                await self._again(client)
        return self._life

    @asynccontextmanager
    async def _followed(self, client: Client) -> AsyncIterator[None]:
        async with self._pods.follow(client, self._pods_path, _POD_COLUMNS):
            if self._jobs_path is None:
                yield
                return
            small = f"/api/v1/namespaces/{_small(self._namespace)}/pods"
            async with (
                self._states.follow(client, self._jobs_path, ("State",)),
                self._small.follow(client, small, ()),
            ):
                yield

    @asynccontextmanager
    async def _started(self, *, asking: bool) -> AsyncIterator[None]:
        """Run the contender; note at the end what it took."""
        with ExitStack() as stack:
            # In a thread: the tables are followed meanwhile.
            starting = self._contender.started(self._cluster, asking=asking)
            self._running = await asyncio.to_thread(stack.enter_context, starting)
            began = time.monotonic()
            try:
                yield
            except StalledError as error:
                said = self._running.last_words()
                measured = f"measured before: {self._life.so_far()}"
                text = f"{self._contender.name}: {error}\n{measured}\n{said}"
                raise StalledError(text.strip()) from error
            self._note(began)
            self._running = Running()
            await asyncio.to_thread(stack.close)

    def _note(self, began: float) -> None:
        for process in self._running.processes:
            self._life.memory = max(self._life.memory or 0.0, process.peak_memory())
        if (stall := self._running.longest_stall(began)) is not None:
            self._life.stall = max(self._life.stall or 0.0, stall)

    async def _create(self, client: Client) -> None:
        life, jobs, running = self._life, self._life.jobs, self._running
        objects = list(self._contender.submission(self._namespace, jobs))
        mark = await self._mark()
        for process in running.processes:
            process.forget_peak()
        used = sum(running.cpu())
        began = time.perf_counter()

        async def existing() -> None:
            life.pods_exist = await self._pods.until(at_least(jobs * PODS, "pods")) - began
            life.all_run = await self._pods.until(at_least(jobs * PODS, "running pods", _RUNS))
            if self._jobs_path is not None:
                running = at_least(jobs, "jobs Running", ("Running",))
                life.all_run = await self._states.until(running)
            life.all_run -= began

        async def submit() -> None:
            await client.create(objects)
            if self._jobs_path is not None:
                life.small = await self._submit_small(client)

        await asyncio.gather(submit(), existing())
        if running.processes:
            life.cpu = sum(running.cpu()) - used
        life.requests = await self._since(mark)

    async def _submit_small(self, client: Client) -> float:
        began = time.perf_counter()
        space = _small(self._namespace)
        await client.create(self._contender.submission(space, 1))
        found = await self._small.until(at_least(PODS, "pods of the small job")) - began
        if self._jobs_path is not None:
            # It would report its progress for as long as it is there.
            await client.delete(self._jobs_path.replace(self._namespace, space))
        return found

    async def _rest(self) -> None:
        with self._share() as share:
            mark = await self._mark()
            await asyncio.sleep(REST_SECONDS)
            found = await self._since(mark)
        self._life.rest = share[0]
        self._life.rest_writes = found.writes.total()

    async def _again(self, client: Client) -> None:
        """Start the contender anew, where pods are missing; then let jobs report, fail and end."""
        life = self._life
        failing, ending = disturbances.chosen(life.jobs)
        names = await disturbances.absences(client, self._pods_path, self._pods, failing[:_MISSING])
        gone = dict.fromkeys(names, time.perf_counter())
        evaluators = await self._evaluators(client)
        with self._reports(evaluators):
            async with self._started(asking=True):
                await self._pods.until(created_since(gone, "workers that were missing at a start"))
                started = min(process.began for process in self._running.processes)
                life.synced = max(self._pods.appeared[name] for name in names) - started
                await self._pods.until(at_least(life.jobs * PODS, "running pods", _RUNS))
                await asyncio.sleep(max(_SETTLE_SECONDS, _SETTLE_SECONDS_A_JOB * life.jobs))
                await self._steady()
                path, pods = self._pods_path, self._pods
                life.replaced = await disturbances.failures(client, path, pods, failing)
                mark = await self._mark()
                ends = await disturbances.ends(client, path, pods, self._states, ending)
                life.succeeded = [end.seconds for end in ends]
                life.ending = await self._since(mark, {end.job: end.chief_exit for end in ends})
                left = sorted(set(range(life.jobs)) - set(ending))
                await disturbances.all_end(client, path, pods, self._states, left)
                await pods.rest(_SETTLE_SECONDS)
                await self._rest()
                await self._delete(client)

    async def _steady(self) -> None:
        with self._share() as share:
            mark, began = await self._mark(), time.perf_counter()
            await asyncio.sleep(self._steady_seconds)
            found, seconds = await self._since(mark), time.perf_counter() - began
        self._life.steady = share[0]
        self._life.steady_writes = found.writes.total() / seconds

    async def _delete(self, client: Client) -> None:
        began = time.perf_counter()
        owned = owned_paths(self._namespace)
        try:
            await client.delete(*((self._jobs_path,) if self._jobs_path else owned))
        except ClusterError as error:
            # What was measured in half an hour is not lost to the last request.
            print(f"not deleted: {error}", file=sys.stderr)
            return
        self._life.deleted = await self._pods.until(none_of(None, "deletion of all pods")) - began

    async def _evaluators(self, client: Client) -> list[str]:
        """Return the addresses of the evaluators of a contender that asks for progress."""
        if self._contender.asks is None:
            return []
        found = await client.list(self._pods_path, self._contender.asks)
        return [each["status"]["podIP"] for each in found]

    def _reports(self, evaluators: list[str]) -> AbstractContextManager[None]:
        if self._contender.asks is None:
            return nullcontext()
        return reports.served(self._cluster.folder, evaluators)

    @contextmanager
    def _share(self) -> Iterator[list[float]]:
        """Measure the share of a core that the busiest process uses during the block."""
        running, found = self._running, [0.0]
        before, began = running.cpu(), time.perf_counter()
        yield found
        used = (after - each for after, each in zip(running.cpu(), before, strict=True))
        found[0] = max(used, default=0.0) / (time.perf_counter() - began)

    async def _since(self, mark: Mark, ended: Mapping[str, str] | None = None) -> Requests:
        end, agents = await self._mark(), self._contender.agents
        return await asyncio.to_thread(mark.since, end, agents, ended)

    async def _mark(self) -> Mark:
        return await asyncio.to_thread(Mark.now, self._cluster.audit)

    def _problem(self) -> str | None:
        return self._running.problem() or self._cluster.problem()


def _small(namespace: str) -> str:
    return f"{namespace}-small"
