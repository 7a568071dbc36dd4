"""Reads pods and events of the jobs that somebody looks at, for web/source.py.

A page does not wait for an API server that is slow: it shows what was known before, and the read
goes on. Threads make the calls, as they block.
"""

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tftraining_operator.core import slim

from tftraining.cluster.cluster import Calls, Cluster
from tftraining.errors import TFTrainingError
from tftraining.web.job_page import Details

_Object = dict[str, Any]

_FRESH_SECONDS = 4.0
"""How long pods and events are shown before they are read again, however many look."""
_PATIENCE_SECONDS = 3.0
"""How long a page waits for them."""
_KEPT_SECONDS = 15.0
"""How long they are kept after that: those of a large job take megabytes."""
_MOST_READS = 4
"""At the same time, each of which has a page of the list of pods in memory."""
_SLOW = "Pods and events are not up to date: the API server does not answer"


@dataclass(slots=True)
class _Looked:
    """What is known of a job, and the newest read."""

    details: Details = field(default_factory=Details)
    began: float = 0.0
    task: asyncio.Task[None] | None = None

    @property
    def reading(self) -> bool:
        return self.task is not None and not self.task.done()


class DetailsReader:
    """The details of jobs, which are kept for some seconds; belongs to one event loop."""

    def __init__(self, calls_of: Callable[[str], Calls]) -> None:
        """Take a function that gives the calls of a namespace."""
        self._calls_of = calls_of
        self._looked: dict[str, _Looked] = {}
        self._slots = asyncio.Semaphore(_MOST_READS)

    async def details(self, job: _Object) -> Details:
        """Return pods and events of a job, which may be some seconds old, or more with a reason."""
        uid, now = job["metadata"]["uid"], time.monotonic()
        looked = self._looked.setdefault(uid, _Looked())
        if looked.task is None or (not looked.reading and now - looked.began > _FRESH_SECONDS):
            looked.began, looked.task = now, asyncio.create_task(self._read(job, looked))
        # Who goes away must not cancel it for the others: wait() does not.
        patience = max(0.0, looked.began + _PATIENCE_SECONDS - now)
        await asyncio.wait([looked.task], timeout=patience)
        if looked.reading:
            return replace(looked.details, problem=_SLOW)
        looked.task.result()
        return looked.details

    async def _read(self, job: _Object, looked: _Looked) -> None:
        try:
            async with self._slots:
                found = await _in_daemon(functools.partial(self._details, job))
            looked.details = (
                replace(looked.details, problem=found.problem) if found.problem else found
            )
        finally:
            loop = asyncio.get_running_loop()
            loop.call_later(_KEPT_SECONDS, self._forget, job["metadata"]["uid"])

    def _forget(self, uid: str) -> None:
        looked = self._looked.get(uid)
        old = looked is not None and time.monotonic() - looked.began >= _KEPT_SECONDS
        if looked is not None and old and not looked.reading:
            del self._looked[uid]

    def _details(self, job: _Object) -> Details:
        cluster = Cluster(self._calls_of(job["metadata"]["namespace"]))
        try:
            pods = cluster.pods(job, slim.pod)
            return Details(pods, cluster.events(job, slim.other), cluster.claims(pods))
        except TFTrainingError as error:
            return Details(problem=f"Pods and events cannot be read: {error}")


def _in_daemon(function: Callable[[], Details]) -> asyncio.Future[Details]:
    """Call a function in a thread that does not keep the process from ending, as to_thread does."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Details] = loop.create_future()

    def settle(settled: Callable[[Any], None], found: object) -> None:
        if not answer.done():
            settled(found)

    def run() -> None:
        try:
            outcome: tuple[Callable[[Any], None], object] = answer.set_result, function()
        except Exception as error:  # noqa: BLE001 - whoever awaits it gets it
            outcome = answer.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return answer
