"""Wires store, queue, reconciler and poller together and keeps them running.

Made by main, which serves its health; started and stopped by the handlers. Its watches feed it.
"""

import asyncio
import contextlib
import logging
import math
import random
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tftraining_operator.controller import garbage, logs, wire
from tftraining_operator.controller.access import Access
from tftraining_operator.controller.batching import MANY, Moment
from tftraining_operator.controller.first_looks import FirstLooks
from tftraining_operator.controller.groups import Groups
from tftraining_operator.controller.kubernetes_api import Call, KubernetesApi
from tftraining_operator.controller.listings import KINDS, Listings
from tftraining_operator.controller.metrics import Metrics
from tftraining_operator.controller.namespaces import Namespaces
from tftraining_operator.controller.outbox import Outbox
from tftraining_operator.controller.poller import ProgressPoller
from tftraining_operator.controller.recorder import Recorder
from tftraining_operator.controller.safeguards import Safeguards
from tftraining_operator.controller.server_clock import ServerClock
from tftraining_operator.controller.settings import Settings
from tftraining_operator.controller.share import Share
from tftraining_operator.controller.stopping import unless
from tftraining_operator.controller.watch import Watch
from tftraining_operator.controller.workloads import Workloads
from tftraining_operator.core.budgeting import Budgeting
from tftraining_operator.core.pod_state import is_on_its_way
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.slim import asks_the_same
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.astray import mend_buckets
from tftraining_operator.reconcile.errors import ApiError
from tftraining_operator.reconcile.reconciler import Reconciler
from tftraining_operator.reconcile.store import JobKey, Kind, Store
from tftraining_operator.reconcile.unlisted import read_unlisted
from tftraining_operator.reconcile.workqueue import WorkQueue

if TYPE_CHECKING:
    from tftraining_operator.controller.tracing import Tracing

logger = logging.getLogger(__name__)

STUCK_SECONDS = 120.0
"""Jobs that wait while for longer than this no pass begins, writes or ends: it is stuck."""

_READS = ("get", "list")
_LOOK_SECONDS = 1.0
_RESYNC_SHARE = 0.01
"""Of the time, what resyncs take at most: they come less often where there is much to list."""
_PUT_OFF_SECONDS = 10.0
_PUT_OFF = 90
"""A resync is put off so often at most where very many jobs wait for a pass."""
_LAST_EVENTS_SECONDS = 2.0
"""What events that are under way get at the end."""
_SAFEGUARDS = (Kind.NETWORK_POLICY, Kind.DISRUPTION_BUDGET)
_FIND_UNTOLD_SECONDS = 10.0
"""Between two reads of a pod that has lost our label, of which no watch tells, and before a bucket
that could not be mended is tried again."""


class Runtime:
    """The operator between two kopf activities: started once, stopped once.

    It writes nothing once `seconds_left` returns 0 or less.
    """

    def __init__(
        self,
        settings: Settings,
        seconds_left: Callable[[], float] = lambda: math.inf,
        metrics: Metrics | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._tracing = tracing
        self._seconds_left = seconds_left
        self._share = Share(settings.shards)
        self._store = Store(self._share.takes_in)
        self._clock = ServerClock()
        self._first_looks = FirstLooks(self._store, self._look, self._clock)
        self._access = Access()
        self._changing = asyncio.Lock()
        self._tasks: list[asyncio.Task[object]] = []
        self._cluster: KubernetesApi | None = None
        self._listings: Listings | None = None
        self._outbox: Outbox | None = None
        self._reconciler: Reconciler | None = None
        self._namespaces: Namespaces | None = None
        self._workloads: dict[str | None, Workloads] = {}
        self._queue: WorkQueue[JobKey] | None = None
        self.moment = Moment(self._waiting)
        """For how long what arrives may wait for more."""
        self._untold = asyncio.Event()
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Connect, list what exists, and only then begin to reconcile. Raises ApiError."""
        cluster = self._cluster = await KubernetesApi.connect(
            seconds_left=self._seconds_left,
            observe=self._saw_call,
            selector=self._share.selector,
            job_selector=self._share.job_selector,
            heard=self._clock.heard,
        )
        poller = ProgressPoller(
            self._look,
            self._settings.progress_seconds,
            self._clock,
            progressed=self._progressed,
            observe=self._metrics.saw_poll,
        )
        namespaces = self._settings.namespaces or (None,)
        groups = Groups(cluster, self._store, namespaces, self._look)
        self._workloads = {
            each: Workloads(
                cluster, self._store, each, self._look, partial(self._look_at_all, each)
            )
            for each in namespaces
        }
        policies, budgets = (
            Safeguards(kind, cluster, self._store, self._look) for kind in _SAFEGUARDS
        )
        listings = self._listings = Listings(
            cluster,
            self._store,
            namespaces,
            self._look,
            access=self._access,
            first=[groups.list],
            beside=[policies.list, budgets.list, self._list_workloads],
        )
        outbox = self._outbox = Outbox(Recorder(cluster, socket.gethostname(), self._clock))
        reconciler = self._reconciler = Reconciler(
            cluster,
            self._store,
            poller,
            outbox,
            trainer_image=self._settings.trainer_image,
            pod_metadata=self._settings.pod_metadata,
            clock=self._clock,
            offer=partial(self._offered, groups),
            networking=lambda namespace: replace(
                self._settings.networking, problem=policies.problem(namespace)
            ),
            budgeting=lambda namespace: Budgeting(
                self._settings.disruption_budget, budgets.problem(namespace)
            ),
            observe=self._metrics.saw_status,
            give_way=self._give_way,
            shards=self._settings.shards,
        )

        own = self._namespaces = Namespaces(
            self._settings,
            cluster,
            self._store,
            access=self._access,
            listings=listings,
            reconciler=reconciler,
            look_at=self._first_looks.begin,
        )

        async def named(key: JobKey) -> float | None:
            if not self._share.works_on(key) or self._store.went_back:
                return None
            logs.begin_job(key, self._store.job(key))
            return await own.pass_over(key)

        handle = self._metrics.timed(named)
        if self._tracing is not None:
            handle = self._tracing.traced(handle, self._store.job)
        async with self._changing:
            # A pass before the first listing would take every existing pod for missing.
            await listings.succeed()
            # Not before: what a listing brings is looked at below, in another order.
            queue = self._queue = WorkQueue(
                handle, workers=self._settings.workers, group=_namespace
            )
            own.serve(queue)
            self._metrics.read_queue(queue)
            self._metrics.read_reports(poller.ages)
            self._metrics.read_namespaces(own.count)
            self._metrics.read_jobs(self._store, self._clock, own.works_in)
            self.start_task("queue", queue.run())
            self.start_task("claims to namespaces", own.keep())
            self.start_task("progress polling", poller.run())
            self.start_task("resync", self._keep_in_sync(listings))
            self.start_task("collection of garbage", garbage.look_often())
            self.start_task("listing of groups", self._follow(groups))
            self.start_task("access to namespaces", own.regain(self._settings.groups_seconds))
            listed = self._unlisted() | listings.versions | policies.versions | budgets.versions
            for (kind, namespace), version in listed.items():
                watch = Watch(
                    cluster, kind, namespace, self.see, listings.list_kind, access=self._access
                )
                self.start_task(f"watch of {kind}s", watch.follow(version))
            for each in self._workloads.values():
                follow = each.follow(self._settings.groups_seconds)
                self.start_task("watch of Workloads", follow)
            self.start_task("search for what no watch tells of", self._find_untold(cluster, own))
        self._look_at_all()

    def start_task(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        """Run `work` until `stop`; the process is unwell once it exits by itself."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_log_exit)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Stop working and close the connections."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._outbox is not None:
            await self._outbox.close(_LAST_EVENTS_SECONDS)
        if self._cluster is not None:
            await self._cluster.close()

    async def gain(self, shard: int) -> None:
        """Work on the jobs of a shard from now on; if running, once all their objects are known.

        Never, if this process is asked to stop meanwhile.
        """
        async with self._changing:
            self._share.take_in(shard)
            # Before the listing: what happens after it, a watch of these objects tells.
            self._select_anew()
            listings = self._listings if self._tasks else None
            if listings is not None:
                with garbage.kept():
                    if not await unless(self._stopping, listings.succeed()):
                        return
            self._share.work_on(shard)
        self._look_at_all()

    async def lose(self, shard: int) -> None:
        """Work no longer on the jobs of a shard: once this returns, nothing of them is written.

        But events that tell what was done, which may still be under way.
        """

        def lost(key: JobKey) -> bool:
            return self._share.shard(key) == shard

        async with self._changing:
            self._share.stop_work(shard)
            if self._queue is not None:
                await self._queue.ended(lost)
            self._share.forget(shard)
            self._select_anew()
            for key in self._store.drop(lost):
                if self._reconciler is not None:
                    await self._reconciler(key)  # a job that is unknown is forgotten

    def see(self, kind: Kind, raw: dict[str, Any], event_type: str) -> None:
        """Take in one watch event, of what wire decodes. Must not fail: nobody would repeat it."""
        self._metrics.saw_event(kind, event_type)
        deleted = event_type == "DELETED"
        if kind is Kind.JOB and not self._share.takes_in(_key(raw)):
            if not deleted:
                self._store.put(kind, raw)
            if self._store.has_astray:
                self._untold.set()
            return
        is_awaited = not deleted and self._is_awaited(kind, raw)
        if deleted:
            key = self._store.remove(kind, raw)
        else:
            key = self._store.put(kind, raw, is_cut=wire.is_cut(kind))
        if key is not None and is_awaited:
            self._look_soon(kind, key)
        elif key is not None:
            self._look(key)
        if deleted and "deletionTimestamp" not in raw["metadata"]:
            self._untold.set()

    def health(self) -> str | None:
        """Return what is wrong with the process, None while it works."""
        for task in self._tasks:
            if task.done():
                return f"a background task exited: {task.get_name()}"
        if self._queue is not None and self._queue.stuck_for() > STUCK_SECONDS:
            return (
                f"jobs wait, and for {self._queue.stuck_for():.0f} s no pass began, wrote or ended"
            )
        return None

    async def restored(self) -> None:
        """Return when a listing was older than what was known; no pass is begun from then on."""
        while not self._store.went_back:  # noqa: ASYNC110 - the store knows no event loop
            await asyncio.sleep(_LOOK_SECONDS)

    def unready(self) -> str | None:
        """Return what delays the first pass, None once passes run in all namespaces."""
        if not self._tasks:
            return "jobs, pods and services are not listed yet"
        return None if self._namespaces is None else self._namespaces.problem()

    def _is_awaited(self, kind: Kind, raw: dict[str, Any]) -> bool:
        """Tell whether an object's version asks for nothing to be done at once.

        A job's pods start together, each with several events; and a job's status is our own, which
        a watch may tell before the answer to its write.
        """
        if kind is Kind.JOB:
            return asks_the_same(self._store.job(_key(raw)), raw)
        return kind is Kind.POD and is_on_its_way(raw)

    def _select_anew(self) -> None:
        if self._cluster is not None:
            self._cluster.end_watches()

    def _saw_call(self, call: Call) -> None:
        self._metrics.saw_call(call)
        if self._queue is not None and call.verb not in _READS and call.resource != "leases":
            self._queue.moved()
            self.moment.took(call.seconds)
        if self._tracing is not None:
            self._tracing.saw_call(call)

    def _look_soon(self, kind: Kind, key: JobKey) -> None:
        if self._queue is None or not self._share.works_on(key):
            return
        # No other pod is to come that could share the pass of a job's last one.
        is_last = kind is Kind.POD and self._store.are_ready(key)
        self._queue.add_soon(key, 1 if is_last else self._store.job_count())

    def _give_way(self, key: JobKey) -> bool:
        return self._queue is not None and self._queue.give_way(key)

    def _look(self, key: JobKey, *, routine: bool = False) -> None:
        if self._queue is not None and self._share.works_on(key):
            self._queue.add(key, routine=routine)

    def _progressed(self, key: JobKey) -> None:
        if self._queue is not None and self._reconciler is not None and self._share.works_on(key):
            self._queue.add_when(key, self._reconciler.progress_due)

    def _look_at_all(self, namespace: str | None = None) -> None:
        self._first_looks.begin(self._store.job_keys(namespace))

    def _unlisted(self) -> dict[tuple[Kind, str | None], str]:
        """Return what is to be listed, and then watched, once it can be."""
        kinds = (*KINDS, *_SAFEGUARDS)
        return {(kind, each): "" for each in self._access.forbidden() for kind in kinds}

    async def _list_workloads(self, namespace: str | None) -> None:
        await self._workloads[namespace].list()

    def _offered(self, groups: Groups, namespace: str) -> Offer:
        """Return what can be used in a namespace."""
        workloads = self._workloads.get(namespace) or self._workloads[None]
        return replace(groups.offer(namespace), workloads=workloads.availability)

    async def _keep_in_sync(self, listings: Listings) -> None:
        while True:
            spread = random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
            pause = max(self._settings.resync_seconds, listings.took / _RESYNC_SHARE)
            await asyncio.sleep(pause * spread)
            await self._calm()
            try:
                await listings.list_all()
            except ApiError as error:
                logger.warning("resync failed; the watches continue: %s", one_line(error.message))

    async def _calm(self) -> None:
        """Wait while very many jobs do: to list all takes the API server from them."""
        for _ in range(_PUT_OFF):
            if self._waiting() < MANY:
                return
            await asyncio.sleep(_PUT_OFF_SECONDS)

    def _waiting(self) -> int:
        """Return the number of jobs that wait for a pass."""
        return 0 if self._queue is None else self._queue.depth()

    async def _follow(self, groups: Groups) -> None:
        while True:
            await asyncio.sleep(self._settings.groups_seconds)
            await groups.list()

    async def _find_untold(self, cluster: KubernetesApi, own: Namespaces) -> None:
        while True:
            self._untold.clear()
            try:
                await read_unlisted(cluster, self._store, self._look, self._access.is_forbidden)
                await mend_buckets(cluster, self._store, own.has)
            except ApiError as error:
                reason = one_line(error.message)
                logger.warning("cannot read or mend what no watch tells of: %s", reason)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._untold.wait(), _FIND_UNTOLD_SECONDS)


def _log_exit(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        logger.error("background task %s exited", task.get_name(), exc_info=task.exception())


def _key(job: dict[str, Any]) -> JobKey:
    return JobKey(job["metadata"]["namespace"], job["metadata"]["name"])


def _namespace(key: JobKey) -> str:
    return key.namespace
