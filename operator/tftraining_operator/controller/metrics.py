"""What one operator process counts and measures, in a registry of its own.

Fed by main, metrics_server and runtime, which observe at the edges; nothing below them knows of it.
What exists already (the queue, the reports, the jobs of the store) is read when Prometheus scrapes,
so that no number is kept twice. The table in docs/guide/monitoring.md is generated from the
registry.
"""

import platform
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from tftraining_operator import __version__
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Status
from tftraining_operator.controller.claims import State
from tftraining_operator.controller.job_metrics import (
    ENDS,
    FAILED,
    OTHER,
    RESTARTS,
    SUCCEEDED,
    JobsCollector,
    Names,
    strategy_of,
)
from tftraining_operator.controller.kubernetes_api import Call, plural
from tftraining_operator.controller.poller import PollResult
from tftraining_operator.core.milestones import Stage, job_end, restart_reason, stage_ends
from tftraining_operator.reconcile.errors import ApiError
from tftraining_operator.reconcile.store import Kind, Store
from tftraining_operator.reconcile.workqueue import WorkQueue

_Object = dict[str, Any]

K = TypeVar("K")

# The time at which each series began, as a series of its own: nobody asks for it.
disable_created_metrics()  # type: ignore[no-untyped-call]

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LONG = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 12 * 3600, 86400, 604800)
_RESULTS = ("success", "api_error", "error")
"""What comes of a pass, each counted from 0: the first defect is to be an increase."""
_REASONS = frozenset(reason.value for reason in Reason)


class Metrics:
    """The metrics of one operator process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._namespaces = Names()
        self._jobs: JobsCollector | None = None
        self._begun: set[tuple[str, str]] = set()
        ProcessCollector(registry=registry)
        Info(
            "tftraining_operator_build", "Always 1; has the versions as labels.", registry=registry
        ).info({"version": __version__, "python": platform.python_version()})
        self._leader = Gauge(
            "tftraining_operator_leader",
            "1 if this process is the leader, or leads for a shard; 0 on standby.",
            registry=registry,
        )
        self._shards = Gauge(
            "tftraining_operator_shard_held",
            "1 if this process has the lease of the shard, 0 if it has not.",
            ["shard"],
            registry=registry,
        )
        self._claims = Gauge(
            "tftraining_operator_namespaces",
            "Namespaces with jobs, or named in watchNamespaces, by who works on their jobs.",
            ["claim"],
            registry=registry,
        )
        self._lag = Histogram(
            "tftraining_operator_event_loop_lag_seconds",
            "How late the event loop runs what is due; near 0 unless the process is short of CPU.",
            buckets=_FAST,
            registry=registry,
        )
        self._queue_depth = Gauge(
            "tftraining_operator_workqueue_depth",
            "Jobs that wait for a pass.",
            registry=registry,
        )
        self._queue_age = Gauge(
            "tftraining_operator_workqueue_oldest_key_age_seconds",
            "How long the oldest job has been waiting or in work.",
            registry=registry,
        )
        self._queue_retrying = Gauge(
            "tftraining_operator_workqueue_retrying",
            "Jobs whose last pass failed; they are retried with backoff.",
            registry=registry,
        )
        self._passes = Histogram(
            "tftraining_operator_reconcile_duration_seconds",
            "Duration of passes over one job.",
            ["result"],
            buckets=_FAST,
            registry=registry,
        )
        for result in _RESULTS:
            self._passes.labels(result)
        self._calls = Counter(
            "tftraining_operator_api_requests",
            "Requests to the API server, but for watches; code is 'error' without an answer.",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self._call_seconds = Histogram(
            "tftraining_operator_api_request_duration_seconds",
            "Duration of requests to the API server, but for watches.",
            ["verb", "resource"],
            buckets=_FAST,
            registry=registry,
        )
        self._watch_events = Counter(
            "tftraining_operator_watch_events",
            "Objects that watches delivered.",
            ["resource", "type"],
            registry=registry,
        )
        # To look up labels takes longer than to count.
        self._events_of = cache(self._events_with)
        self._calls_of = cache(self._calls_with)
        self._polls = Counter(
            "tftraining_operator_progress_polls",
            "Requests to chiefs and evaluators for their progress.",
            ["result"],
            registry=registry,
        )
        self._targets = Gauge(
            "tftraining_operator_progress_targets",
            "Chiefs and evaluators that are asked for their progress.",
            registry=registry,
        )
        self._report_age = Gauge(
            "tftraining_operator_progress_oldest_report_age_seconds",
            "Age of the oldest last report; of a pod that never reported, since it is asked.",
            registry=registry,
        )
        self._restarts = Counter(
            "tftraining_job_restarts",
            "Restarts of chiefs.",
            ["namespace", "reason"],
            registry=registry,
        )
        self._finished = Counter(
            "tftraining_jobs_finished",
            "Jobs that finished.",
            ["namespace", "result", "reason"],
            registry=registry,
        )
        self._job_seconds = Histogram(
            "tftraining_job_duration_seconds",
            "Time from the creation of a job to its end.",
            ["strategy", "result"],
            buckets=_LONG,
            registry=registry,
        )
        self._stage_seconds = Histogram(
            "tftraining_job_stage_duration_seconds",
            "Duration of the stages of a job.",
            ["strategy", "stage"],
            buckets=_LONG,
            registry=registry,
        )

    def read_leadership(self, seconds_left: Callable[[], float]) -> None:
        """Show whether this process leads."""
        self._leader.set_function(lambda: float(seconds_left() > 0))

    def read_shards(self, shards: int, holds: Callable[[int], bool]) -> None:
        """Show which of several shards this process leads for."""
        for shard in range(shards):
            self._shards.labels(str(shard)).set_function(partial(holds, shard))

    def read_namespaces(self, count: Callable[[State], int]) -> None:
        """Show how many namespaces are in each state."""
        for state in State:
            self._claims.labels(state.value).set_function(partial(count, state))

    def read_queue(self, queue: WorkQueue[Any]) -> None:
        """Show the state of the queue."""
        self._queue_depth.set_function(queue.depth)
        self._queue_age.set_function(queue.oldest_age)
        self._queue_retrying.set_function(queue.retrying)

    def read_reports(self, ages: Callable[[], Sequence[float]]) -> None:
        """Show the ages (s) of the reports of the pods that are asked."""
        self._targets.set_function(lambda: len(ages()))
        self._report_age.set_function(lambda: max(ages(), default=0.0))

    def read_jobs(
        self,
        store: Store,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        works_in: Callable[[str], bool] = lambda _namespace: True,
    ) -> None:
        """Show the jobs of the store in the namespaces that `works_in` tells of."""
        self._jobs = JobsCollector(store, self._namespaces, clock, works_in=works_in)
        self.registry.register(self._jobs)

    async def count_jobs(self) -> None:
        """Look at the jobs for a scrape, while everything else goes on."""
        if self._jobs is not None:
            await self._jobs.count()

    def timed(
        self, handle: Callable[[K], Awaitable[float | None]]
    ) -> Callable[[K], Awaitable[float | None]]:
        """Return `handle` with its duration and result observed."""

        async def observed(key: K) -> float | None:
            began = time.monotonic()
            result = "error"
            try:
                wake_in = await handle(key)
                result = "success"
            except ApiError:
                result = "api_error"
                raise
            finally:
                self._passes.labels(result).observe(time.monotonic() - began)
            return wake_in

        return observed

    def saw_lag(self, seconds: float) -> None:
        """Count one sample of the event loop's lag."""
        self._lag.observe(seconds)

    def saw_call(self, call: Call) -> None:
        """Count a request to the API server."""
        count, seconds = self._calls_of(call.verb, call.resource, call.code)
        count.inc()
        seconds.observe(call.seconds)

    def saw_event(self, kind: Kind, event_type: str) -> None:
        """Count an object that a watch delivered."""
        self._events_of(kind, event_type).inc()

    def _events_with(self, kind: Kind, event_type: str) -> Counter:
        return self._watch_events.labels(plural(kind), event_type)

    def _calls_with(self, verb: str, resource: str, code: str) -> tuple[Counter, Histogram]:
        return self._calls.labels(verb, resource, code), self._call_seconds.labels(verb, resource)

    def saw_poll(self, result: PollResult) -> None:
        """Count a request for progress."""
        self._polls.labels(result.value).inc()

    def saw_status(self, raw: _Object, before: Status, after: Status) -> None:
        """Count what a written status says for the first time; `raw` is the job.

        What may happen to the job later is counted from 0, with its first status.
        """
        metadata = raw["metadata"]
        created = metadata.get("creationTimestamp")
        namespace = self._namespaces.bounded(metadata["namespace"])
        strategy = strategy_of(raw)
        self._begin(namespace, strategy)
        for ended in stage_ends(before, after, created):
            self._stage_seconds.labels(strategy, ended.stage.value).observe(ended.seconds)
        if (reason := restart_reason(before, after)) is not None:
            self._restarts.labels(namespace, _known(reason)).inc()
        if (end := job_end(before, after, created)) is not None:
            result = SUCCEEDED if end.succeeded else FAILED
            self._finished.labels(namespace, result, _known(end.reason)).inc()
            self._job_seconds.labels(strategy, result).observe(end.seconds)

    def _begin(self, namespace: str, strategy: str) -> None:
        """Count from 0: a series that begins at 1 is no increase for Prometheus."""
        if (namespace, strategy) in self._begun:
            return
        self._begun.add((namespace, strategy))
        for reason in RESTARTS:
            self._restarts.labels(namespace, reason)
        for result, reason in ENDS:
            self._finished.labels(namespace, result, reason)
        for result in (SUCCEEDED, FAILED):
            self._job_seconds.labels(strategy, result)
        for stage in Stage:
            self._stage_seconds.labels(strategy, stage.value)


def _known(reason: str) -> str:
    return reason if reason in _REASONS else OTHER
