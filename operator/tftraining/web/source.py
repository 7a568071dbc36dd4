"""Keeps the jobs up to date from a cluster; web/details.py reads the rest about one.

A thread for each namespace that is watched, as the client's calls block; what it learns is handed
to the event loop, which alone changes and reads the jobs.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tftraining.cluster.cluster import Calls
from tftraining.cluster.watching import WATCH_SECONDS, Kind, changes
from tftraining.errors import ForbiddenError, TFTrainingError, UnreachableError
from tftraining.web.details import DetailsReader
from tftraining.web.job_page import Details
from tftraining.web.jobs import Jobs, Seen, read

logger = logging.getLogger(__name__)

_Object = dict[str, Any]

_FIRST_RETRY, _LAST_RETRY = 1.0, 30.0
_SILENCE = 2.0 * WATCH_SECONDS


@dataclass(slots=True)
class _Watched:
    """What is known of one namespace, or of all."""

    jobs: Jobs = field(default_factory=Jobs)
    listed: bool = False
    heard: float = field(default_factory=time.monotonic)
    error: str = ""
    refused: bool = False
    """Whether the API server did not let its jobs be read, as without a Role in the namespace."""
    forbidden: bool = False
    """Whether the reason is that they may not be read, so that they are shown no longer."""

    @property
    def problem(self) -> str:
        """Why its jobs may not be up to date; "" if they are."""
        silent = time.monotonic() - self.heard
        if self.error:
            return f"Not up to date: {self.error}"
        if silent > _SILENCE:
            return f"Not up to date: the API server has sent nothing for {silent:.0f} s"
        return "" if self.listed else "The jobs are being listed"


class Source:
    """The jobs of some namespaces, or of all; its methods belong to one event loop."""

    def __init__(self, calls_of: Callable[[str | None], Calls], namespaces: Sequence[str]) -> None:
        """Take a function that gives the calls of a namespace; no namespaces are all."""
        self._calls_of = calls_of
        self._watched = {name: _Watched() for name in namespaces or (None,)}
        self._details = DetailsReader(calls_of)
        self._threads: list[threading.Thread] = []

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Keep the jobs up to date until the block ends."""
        loop, stop = asyncio.get_running_loop(), threading.Event()
        for namespace in self._watched:
            # A daemon: it may be reading while the process wants to end.
            arguments = (namespace, loop, stop)
            thread = threading.Thread(target=self._follow, args=arguments, daemon=True)
            self._threads.append(thread)
            thread.start()
        try:
            yield
        finally:
            stop.set()

    @property
    def alive(self) -> bool:
        """Whether every watch goes on."""
        return all(thread.is_alive() for thread in self._threads)

    @property
    def ready(self) -> bool:
        """Whether all jobs were listed once, but for those of namespaces that may not be read."""
        watched = self._watched.values()
        return any(each.listed for each in watched) and all(
            each.listed or each.refused for each in watched
        )

    @property
    def problem(self) -> str:
        """Why the jobs may not be up to date; "" if they are."""
        # Of a namespace that may not be read last: it must not hide what all others lack.
        watched = sorted(self._watched.values(), key=lambda each: each.refused)
        return next(filter(None, (each.problem for each in watched)), "")

    def problem_in(self, namespace: str) -> str:
        """Return why it is not known which jobs a namespace has; "" if it is known."""
        found = self._watched.get(namespace) or self._watched.get(None)
        return f"Namespace {namespace} is not shown here" if found is None else found.problem

    def jobs(self) -> list[_Object]:
        """Return all jobs, by namespace and name."""
        return [job for each in self._shown() for job in each.jobs.all()]

    def find(self, namespace: str, name: str) -> tuple[_Object, list[tuple[int, float]]] | None:
        """Return a job with its steps and losses, None if there is none."""
        for each in self._shown():
            if (job := each.jobs.find(namespace, name)) is not None:
                return job, each.jobs.losses(job)
        return None

    async def details(self, job: _Object) -> Details:
        """Return pods and events of a job, which may be some seconds old."""
        return await self._details.details(job)

    def _shown(self) -> list[_Watched]:
        """Return what may be shown: the rest is kept, as an API server that starts forbids all."""
        return [each for each in self._watched.values() if not each.forbidden]

    def _follow(
        self, namespace: str | None, loop: asyncio.AbstractEventLoop, stop: threading.Event
    ) -> None:
        """Watch until it is to stop; a failed watch is begun again after a while."""
        watched, delay = self._watched[namespace], _FIRST_RETRY

        def in_loop(function: Callable[..., None], *arguments: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(function, watched, *arguments)

        while not stop.is_set():
            try:
                calls = self._calls_of(namespace)
                for change in changes(calls, everywhere=namespace is None):
                    if stop.is_set():
                        return
                    now = datetime.now(UTC)
                    in_loop(_apply, change.kind, [read(job, now) for job in change.jobs])
                    delay = _FIRST_RETRY
            except TFTrainingError as error:
                in_loop(_fail, error)
            except Exception as error:
                # Without this thread the page would show what it has for ever.
                where = namespace or "all namespaces"
                logger.exception("the watch of %s ended unexpectedly", where)
                text = f"unexpected {type(error).__name__}: {error}"
                in_loop(_fail, UnreachableError(text))
            stop.wait(delay)
            delay = min(2 * delay, _LAST_RETRY)


def _apply(watched: _Watched, kind: Kind, jobs: Sequence[Seen]) -> None:
    watched.heard, watched.error = time.monotonic(), ""
    watched.refused = watched.forbidden = False
    if kind is Kind.LISTED:
        watched.jobs.replace(jobs)
        watched.listed = True
    for job in jobs:
        if kind is Kind.SEEN:
            watched.jobs.put(job)
        elif kind is Kind.GONE:
            watched.jobs.remove(job.raw)


def _fail(watched: _Watched, error: TFTrainingError) -> None:
    refused = not isinstance(error, UnreachableError)
    if refused and not watched.refused:
        logger.warning("jobs are not shown: %s", error)
    watched.error, watched.refused = str(error), refused
    # Until they are listed again: an outage does not give the right back.
    watched.forbidden |= isinstance(error, ForbiddenError)
