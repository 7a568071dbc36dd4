"""Examples per second and input wait of each worker, from its counters. Pure."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tftrainer.runtime.rates import Rate

_WINDOW_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Work:
    """What one worker has done since this process began; it only grows."""

    examples: int = 0
    waiting: float = 0.0
    """Seconds spent waiting for the next batch."""
    busy: float = 0.0
    """Seconds spent on steps, waiting included."""

    def __add__(self, more: "Work") -> "Work":
        """Return what it has done when it has done more."""
        return Work(
            self.examples + more.examples, self.waiting + more.waiting, self.busy + more.busy
        )


@dataclass(frozen=True, slots=True)
class WorkerRate:
    """Recent speed of one worker."""

    task: str
    examples_per_second: float
    input_wait: float | None
    """Share of its time, 0 to 1, that it waited for the next batch; None if it is not known."""
    stale_at: float = field(default=math.inf, compare=False)
    """When (s) it counts as standing still, if nothing else is known of it by then."""

    def at(self, now: float) -> "WorkerRate":
        """Return what is shown of it: of a worker that stands still nothing is known.

        It is asked for by who shows it: the chief does not look while it validates.
        """
        if now <= self.stale_at:
            return self
        return replace(self, examples_per_second=0.0, input_wait=None)


class Throughput:
    """Keeps the newest seconds of every worker."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self._workers = [_Worker(task) for task in tasks]
        self._total: Rate | None = None
        self.examples = 0

    def add(self, now: float, works: Sequence[Work]) -> None:
        """Note what each worker has done by now, in the order of the tasks."""
        for worker, work in zip(self._workers, works, strict=True):
            worker.add(now, work)
        self.examples = sum(work.examples for work in works)
        if self.examples:
            # Counted from the first report on: what came before it was tracing and connecting.
            self._total = self._total or Rate(now, self.examples, window_seconds=_WINDOW_SECONDS)
            self._total.add(now, self.examples)

    def recent(self, now: float) -> float | None:
        """Return the examples per second of all workers; 0 if none does anything any more.

        None before it is known.
        """
        found = self._total.recent if self._total else None
        stands_still = self._total is not None and self._total.is_stale(now)
        return 0.0 if found is not None and stands_still else found

    @property
    def overall(self) -> float | None:
        """Examples per second of all workers since the first ones."""
        return self._total.overall if self._total else None

    def workers(self, now: float) -> tuple[WorkerRate, ...]:
        """Return the rate of each worker; one that does nothing any more has 0."""
        return tuple(worker.rate(now) for worker in self._workers)


class _Worker:
    def __init__(self, task: str) -> None:
        self._task = task
        self._rate: Rate | None = None
        self._points: deque[tuple[float, Work]] = deque()

    def add(self, now: float, work: Work) -> None:
        if not work.examples or (self._points and work == self._points[-1][1]):
            return
        self._rate = self._rate or Rate(now, work.examples, window_seconds=_WINDOW_SECONDS)
        self._rate.add(now, work.examples)
        self._points.append((now, work))
        while len(self._points) > 2 and now - self._points[1][0] > _WINDOW_SECONDS:  # noqa: PLR2004
            self._points.popleft()

    def rate(self, now: float) -> WorkerRate:
        if self._rate is None:
            return WorkerRate(self._task, 0.0, None, -math.inf)
        speed, stale_at = self._rate.recent or 0.0, self._rate.stale_at
        return WorkerRate(self._task, speed, self._input_wait(), stale_at).at(now)

    def _input_wait(self) -> float | None:
        if not self._points:
            return None
        first, last = self._points[0][1], self._points[-1][1]
        busy = last.busy - first.busy
        if busy <= 0:
            return None
        return min(1.0, max(0.0, (last.waiting - first.waiting) / busy))
