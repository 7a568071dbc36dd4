"""Asks running chiefs and evaluators for their progress. Reads only, and never fails a pass.

The reconciler says which pods to ask; a report that brings something new puts its job into the
queue: at once, or if it tells of steps only, when these may be written. So does a report that has
become too old to count. Each request is a task of its own, so that a pod that does not answer
delays no other.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus

from tftraining_operator.api.keys import Role
from tftraining_operator.controller.logs import about
from tftraining_operator.controller.progress_request import BadAnswerError, ask
from tftraining_operator.core.pace import Pace
from tftraining_operator.core.progress import (
    FRESH,
    Report,
    ask_interval,
    asked_per_second,
    fresh_for,
    parse_report,
)
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.protocols import Target
from tftraining_operator.reconcile.store import JobKey

logger = logging.getLogger(__name__)

_TIMEOUT = 2.0
_MAX_REQUESTS = 64
"""At once: as many that answer in the same moment are taken in by one turn of the event loop."""
_MAX_RETRIES = 256
"""Requests at once to pods that did not answer last time: they wait for each other only."""

_PATIENCE = 6
"""After so many requests without a report, a pod is asked less often,"""
_DOUBLINGS = 2
"""half as often each time, so many times."""

_NOTHING = Context()
"""What a request that begins by itself knows of others."""


class PollResult(StrEnum):
    """What came of one request."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    CONNECTION_FAILED = "connection_failed"
    HTTP_ERROR = "http_error"
    INVALID_REPORT = "invalid_report"


@dataclass(slots=True)
class _Pod:
    """A pod that is asked, and what it answered."""

    key: JobKey
    role: Role
    target: Target
    task: asyncio.Task[None] | asyncio.TimerHandle | None = None
    """The request to it, or until when the next one waits."""
    report: Report | None = None
    received: float = 0.0
    """When the report was received (monotonic); before the first, since when the pod is asked."""
    fresh_for: timedelta = FRESH
    """For how long the report counts."""
    silent: int = 0
    """How many requests in a row brought no report."""
    outdated: bool = False
    """Whether its report was said to count no longer."""

    @property
    def answered(self) -> bool:
        """Whether its last answer was a report; true before the first request."""
        return not self.silent


class ProgressPoller:
    """Keeps the newest report of each job's chief and evaluator.

    A report's age is measured by `monotonic`: a clock that is set makes no report fresh or old.
    """

    def __init__(
        self,
        changed: Callable[[JobKey], None],
        interval: float,
        clock: Callable[[], datetime],
        *,
        progressed: Callable[[JobKey], None],
        monotonic: Callable[[], float] = time.monotonic,
        observe: Callable[[PollResult], None] = lambda _result: None,
    ) -> None:
        self._changed = changed
        self._progressed = progressed
        self._interval = timedelta(seconds=interval)
        self._clock = clock
        self._monotonic = monotonic
        self._observe = observe
        self._pods: dict[JobKey, dict[Role, _Pod]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._turns = {role: Pace(asked_per_second(role)) for role in Role}
        self._requests = asyncio.Semaphore(_MAX_REQUESTS)
        self._retries = asyncio.Semaphore(_MAX_RETRIES)

    def watch(self, key: JobKey, targets: Mapping[Role, Target]) -> None:
        """Ask these pods of a job from now on, and no others; their reports are forgotten."""
        pods = self._pods.setdefault(key, {})
        for role in list(pods):
            if targets.get(role) != pods[role].target:
                _stop(pods.pop(role))
        for role, target in targets.items():
            if role not in pods:
                pods[role] = _Pod(key, role, target, received=self._monotonic())
                self._begin(pods[role])
        if not pods:
            del self._pods[key]

    def forget(self, key: JobKey) -> None:
        """Ask no pod of a job any longer."""
        self.watch(key, {})

    def reports(self, key: JobKey) -> Mapping[Role, Report]:
        """Return the newest reports of the pods that are watched."""
        now, since = self._clock(), self._monotonic()
        return {
            role: pod.report.model_copy(
                update={
                    "received": now - timedelta(seconds=since - pod.received),
                    "fresh_for": pod.fresh_for,
                }
            )
            for role, pod in self._pods.get(key, {}).items()
            if pod.report is not None
        }

    def count(self) -> int:
        """Return how many jobs have pods that are asked."""
        return len(self._pods)

    def ages(self) -> list[float]:
        """Return how old (s) each pod's last report is; without one, for how long it is asked."""
        now = self._monotonic()
        return [now - pod.received for pods in self._pods.values() for pod in pods.values()]

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for pods in self._pods.values():
                    for pod in pods.values():
                        self._begin(pod)
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    def _begin(self, pod: _Pod) -> None:
        """Ask a new pod when its turn comes: all at once, they would keep passes waiting."""
        if self._tasks is not None:
            now = datetime.fromtimestamp(self._monotonic(), UTC)
            turn = self._turns[pod.role].turn(now)
            self._start_in((turn - now) / timedelta(seconds=1), pod)

    def _start_in(self, seconds: float, pod: _Pod) -> None:
        # No task that sleeps: of thousands, each is many objects to look through for garbage.
        loop = asyncio.get_running_loop()
        pod.task = loop.call_later(seconds, self._start, pod, context=_NOTHING)

    def _start(self, pod: _Pod) -> None:
        if self._tasks is not None and self._pods.get(pod.key, {}).get(pod.role) is pod:
            pod.task = self._tasks.create_task(self._request(pod))

    async def _request(self, pod: _Pod) -> None:
        """Ask a pod once, and note when to do so again."""
        with about(namespace=pod.key.namespace, job=pod.key.name, role=pod.role.value):
            async with self._requests if pod.answered else self._retries:
                report = await self._ask(pod)
            if report is not None:
                self._take(pod, report)
            else:
                self._miss(pod)
        pod.silent = 0 if report is not None else pod.silent + 1
        pause = self._pause(pod)
        if report is not None:
            pod.fresh_for = fresh_for(pause)
        self._start_in(pause.total_seconds() * random.uniform(0.9, 1.1), pod)  # noqa: S311 - jitter

    def _pause(self, pod: _Pod) -> timedelta:
        """Return how long to wait until a pod is asked again.

        Longer where many jobs report, and if it has not answered for a while, as its image may
        serve nothing. The first report of a new one is awaited by its users.
        """
        doublings = min(max(0, pod.silent - _PATIENCE), _DOUBLINGS)
        if pod.report is None and not doublings:
            return self._interval
        return ask_interval(self.count(), self._interval, pod.role) * (1 << doublings)

    def _take(self, pod: _Pod, report: Report) -> None:
        before, pod.report, pod.received = pod.report, report, self._monotonic()
        pod.outdated = False
        timeout = pod.target.stall_timeout
        if before is not None and pod.answered and report.says_the_same(before, timeout):
            return
        # After a silence even the same report is news: the pod is seen again. A first one is none
        # where thousands come at a start of this process, and say what is stored already.
        again = before is not None and not pod.answered
        can_wait = not again and report.only_progresses(before, timeout)
        (self._progressed if can_wait else self._changed)(pod.key)

    def _miss(self, pod: _Pod) -> None:
        """Tell once of a report that counts no longer: nothing else would, of a job that trains."""
        old = self._monotonic() - pod.received > pod.fresh_for.total_seconds()
        if pod.report is not None and old and not pod.outdated:
            pod.outdated = True
            self._changed(pod.key)

    async def _ask(self, pod: _Pod) -> Report | None:
        text, result = None, PollResult.INVALID_REPORT
        try:
            async with asyncio.timeout(_TIMEOUT):
                status, text = await ask(pod.target.url)
            if status != HTTPStatus.OK:
                text, result = None, PollResult.HTTP_ERROR
        except (BadAnswerError, OSError) as error:
            timed_out = isinstance(error, TimeoutError)
            result = PollResult.TIMEOUT if timed_out else PollResult.CONNECTION_FAILED
            reason = one_line(str(error)) or type(error).__name__
            logger.debug("%s/%s: no report from the %s: %s", *pod.key, pod.role, reason)
        report = None if text is None else parse_report(text, pod_uid=pod.target.pod_uid)
        self._observe(result if report is None else PollResult.SUCCESS)
        return report


def _stop(pod: _Pod) -> None:
    if pod.task is not None:
        pod.task.cancel()
