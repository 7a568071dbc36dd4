"""Metrics of the jobs in the store, computed when Prometheus scrapes. Used by metrics.

Statuses are read as they are stored, without a model of each: a scrape may find thousands. Three
thousand take a quarter of a second, so the event loop looks at some of them in a turn, and at each
version of a job once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.types import Strategy
from tftraining_operator.core.job import is_ours, run_policy
from tftraining_operator.core.times import parse
from tftraining_operator.reconcile.store import JobKey, Store

_Object = dict[str, Any]

OTHER = "other"
"""The value of a label for everything that is not among the values that it may have."""

MAX_NAMESPACES = 200
MAX_WAITING = 100
WAITING_SECONDS = 60.0
"""A job that waits for a shorter time is not named: most do at their start."""
_IN_A_TURN = 25
"""Jobs that are unpacked and looked at before everything else has its turn: 2 ms."""

STATES = frozenset(
    {
        "New",  # no status yet
        *("Starting", "Running", "Restarting", "Suspended", "Evaluating", "Succeeded", "Failed"),
        *(Reason.INVALID_SPEC, Reason.INVALID_TEMPLATE, Reason.NAME_CONFLICT),
        *(Reason.SCHEDULER_UNAVAILABLE, Reason.QUEUED),
        *(
            Reason.NO_WORKERS,
            Reason.SERVERS_UNREACHABLE,
            Reason.QUOTA_EXCEEDED,
            Reason.POD_SECURITY,
            Reason.REFUSED,
        ),
        *(Reason.INVALID_POD, Reason.FLAVOR_UNREADABLE, Reason.DELETION_REFUSED),
        *(Reason.INIT_CONTAINER_FAILED, Reason.NOT_SCHEDULED),
        # The cluster's own words.
        *("ContainerCreating", "CrashLoopBackOff", "CreateContainerConfigError"),
        *("ImagePullBackOff", "PodInitializing", "SchedulingGated", "Unschedulable"),
    }
)
"""Values of the label `state`: those of status.state that are known beforehand, else OTHER."""

RESTARTS = (
    *(Reason.CHIEF_FAILED, Reason.WORKER_FAILED, Reason.PEERS_UNAVAILABLE),
    *(Reason.CHECKPOINT_UNAVAILABLE, Reason.PARAMETER_SERVER_LOST, Reason.STALLED),
    *(Reason.DISRUPTED, Reason.NODE_LOST, Reason.CHIEF_LOST),
    *(Reason.SCALED, Reason.WORKER_EXCLUDED, Reason.WORKER_REJOINED),
)
"""Why a job may restart."""

SUCCEEDED, FAILED = "succeeded", "failed"
ENDS = (
    *((SUCCEEDED, reason) for reason in (Reason.CHIEF_SUCCEEDED, Reason.NOT_EVALUATED)),
    *((FAILED, reason) for reason in (Reason.PERMANENT_FAILURE, Reason.DIVERGED)),
    *((FAILED, reason) for reason in (Reason.POD_FAILED, Reason.REPEATED_FAILURE)),
    *((FAILED, reason) for reason in (Reason.BACKOFF_LIMIT_EXCEEDED, Reason.DEADLINE_EXCEEDED)),
    (FAILED, Reason.STARTUP_DEADLINE_EXCEEDED),
    (FAILED, Reason.RECOVERY_DEADLINE_EXCEEDED),
    # Of jobs that are rejected for longer than their startup deadline.
    *((FAILED, reason) for reason in (Reason.INVALID_SPEC, Reason.INVALID_TEMPLATE)),
    *((FAILED, reason) for reason in (Reason.NAME_CONFLICT, Reason.SCHEDULER_UNAVAILABLE)),
)
"""How a job may end: result and reason."""

WAITS = ("Rejected", "Stalled", "Queued", "Interrupted", "Starting")
"""Why a job that should train does not, the first that applies."""


class Names:
    """The first so many names keep theirs, further ones become OTHER."""

    def __init__(self, most: int = MAX_NAMESPACES) -> None:
        self._most = most
        self._known: set[str] = set()

    def bounded(self, name: str) -> str:
        """Return the name, or OTHER."""
        if name in self._known:
            return name
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(name)
        return name


class _Seen(NamedTuple):
    """What is told of a version of a job."""

    version: int
    is_ours: bool
    strategy: str
    state: str
    waits: tuple[str, datetime] | None
    """For what a job waits that should train, and since when."""


class _Waiting(NamedTuple):
    seconds: float
    reason: str
    namespace: str
    job: str


@dataclass(frozen=True, slots=True)
class _Tally:
    count: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Jobs by namespace, strategy and state."""
    waiting: list[_Waiting] = field(default_factory=list)


class JobsCollector(Collector):
    """Counts the jobs of the store, and names those that wait for training longest."""

    def __init__(
        self,
        store: Store,
        namespaces: Names,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        works_in: Callable[[str], bool] = lambda _namespace: True,
    ) -> None:
        """Count the jobs of the namespaces that `works_in` tells of."""
        self._store = store
        self._works_in = works_in
        self._namespaces = namespaces
        self._clock = clock
        self._tally: _Tally | None = None
        self._seen: dict[JobKey, _Seen] = {}
        """Of the last time."""

    def describe(self) -> Iterator[Metric]:
        """Return the metrics without values: registration needs their names."""
        yield from self._families()

    async def count(self) -> None:
        """Look at all jobs, at some in each turn of the event loop; collect() tells of them."""
        tally = _Tally()
        for _part in self._looks(tally):
            await asyncio.sleep(0)
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        """Return the metrics as they were counted last, or as the store is now."""
        tally = self._tally or _Tally()
        if self._tally is None:
            for _part in self._looks(tally):
                pass
        jobs, total, longest = self._families()
        for labels, number in tally.count.items():
            jobs.add_metric(labels, number)
        by_reason = Counter(each.reason for each in tally.waiting)
        for reason in WAITS:
            total.add_metric([reason], by_reason[reason])
        for each in _named(tally.waiting):
            longest.add_metric([each.namespace, each.job, each.reason], each.seconds)
        yield from (jobs, total, longest)

    def _looks(self, tally: _Tally) -> Iterator[None]:
        """Count all jobs, with a pause after each part of them."""
        now = self._clock()
        found: dict[JobKey, _Seen] = {}
        for index, key in enumerate(self._store.job_keys(), 1):
            if (seen := self._look(key)) is not None:  # it may be gone meanwhile
                found[key] = seen
                self._add(tally, key, seen, now)
            if index % _IN_A_TURN == 0:
                yield
        self._seen = found

    def _look(self, key: JobKey) -> _Seen | None:
        version, seen = self._store.job_version(key), self._seen.get(key)
        if seen is not None and seen.version == version:
            return seen
        raw = self._store.job(key)
        return None if raw is None or version is None else _seen(raw, version)

    def _add(self, tally: _Tally, key: JobKey, seen: _Seen, now: datetime) -> None:
        if not seen.is_ours or not self._works_in(key.namespace):
            return
        namespace = self._namespaces.bounded(key.namespace)
        tally.count[namespace, seen.strategy, seen.state] += 1
        if seen.waits is not None:
            reason, since = seen.waits
            seconds = (now - since).total_seconds()
            if seconds >= WAITING_SECONDS:
                tally.waiting.append(_Waiting(seconds, reason, key.namespace, key.name))

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily(
                "tftraining_jobs",
                "Jobs by status.state.",
                labels=["namespace", "strategy", "state"],
            ),
            GaugeMetricFamily(
                "tftraining_jobs_waiting",
                f"Jobs that should train and have not for {WAITING_SECONDS:g} s.",
                labels=["reason"],
            ),
            GaugeMetricFamily(
                "tftraining_job_waiting_seconds",
                f"For how long a job that should train has not; {MAX_WAITING} of those above"
                f" {WAITING_SECONDS:g} s, the longest of each namespace and reason first.",
                labels=["namespace", "training_job", "reason"],
            ),
        )


def _named(waiting: Iterable[_Waiting]) -> list[_Waiting]:
    """Return those to name: the longest of each namespace and reason, then the second, and so on.

    One namespace with many that wait hides no other's.
    """
    rank: Counter[tuple[str, str]] = Counter()
    ranked: list[tuple[int, float, _Waiting]] = []
    for each in sorted(waiting, reverse=True):
        ranked.append((rank[each.namespace, each.reason], -each.seconds, each))
        rank[each.namespace, each.reason] += 1
    return [each for _, _, each in sorted(ranked)[:MAX_WAITING]]


def strategy_of(raw: _Object) -> str:
    """Return the strategy of a job as it is stored, or OTHER."""
    given = (raw.get("spec") or {}).get("strategy", Strategy.PARAMETER_SERVER.value)
    return str(given) if given in tuple(Strategy) else OTHER


def _state(raw: _Object) -> str:
    state = (raw.get("status") or {}).get("state") or "New"
    return str(state) if state in STATES else OTHER


def _seen(raw: _Object, version: int) -> _Seen:
    return _Seen(version, is_ours(raw), strategy_of(raw), _state(raw), _wait(raw))


def _wait(raw: _Object) -> tuple[str, datetime] | None:
    """Return for what a job that should train waits, and since when."""
    status = raw.get("status") or {}
    if status.get("completionTime") or status.get("chiefCompletionTime"):
        return None
    if run_policy(raw).get("suspend") is True or "deletionTimestamp" in raw["metadata"]:
        return None
    conditions = {each.get("type"): each for each in status.get("conditions") or []}

    def since(kind: ConditionType, value: str) -> str | None:
        found = conditions.get(kind.value) or {}
        return found.get("lastTransitionTime") if found.get("status") == value else None

    started = None if status.get("firstRunningTime") else status.get("startTime")
    moments = (
        since(ConditionType.ACCEPTED, "False"),
        since(ConditionType.STALLED, "True"),
        _queued_since(status, conditions.get(ConditionType.PODS_READY.value) or {}),
        _since_placed(status.get("interruptedTime"), status),
        _since_placed(started, status),
    )
    for reason, moment in zip(WAITS, moments, strict=True):
        if moment:
            with suppress(ValueError):  # somebody else wrote it
                return reason, parse(moment)
    return None


def _since_placed(moment: str | None, status: _Object) -> str | None:
    """Return since when a job waits for more than nodes: while its gang had none, it was queued."""
    placed = (status.get("gang") or {}).get("scheduledTime")
    # The operator writes all times in one form.
    return max(moment, placed) if moment and placed else moment


def _queued_since(status: _Object, pods_ready: _Object) -> str | None:
    """Return since when a job waits for quota, or its gang for nodes; None if neither does."""
    queue, gang = status.get("queue") or {}, status.get("gang") or {}
    if queue.get("waitingSince") and not queue.get("admittedTime"):
        return str(queue["waitingSince"])
    # A gang whose pods were refused waits as well, but not for its turn.
    is_queued = pods_ready.get("reason") == Reason.QUEUED and not gang.get("scheduledTime")
    return gang.get("waitingSince") if is_queued else None
