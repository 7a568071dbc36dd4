"""Follows objects by the API server's tables: a name and a few cells, whatever the objects weigh.

So that the watching costs this machine little, and every contender the same.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from bench.scale.client import Client
from tools.cluster.shell import ClusterError

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

_QUIET_SECONDS = 120.0
"""Who changes nothing for so long is not waited for any more,"""
_QUIET_SECONDS_A_JOB = 0.06
"""or for this with very many jobs, all objects of which a shard lists when it starts,"""
LONGEST_SECONDS = 3600.0
"""nor who does not come to an end."""
_LOOK_SECONDS = 1.0
_BUSY = frozenset({429, 500, 503, 504})
"""Codes of a server that may answer the next time."""
_HUNG_UP = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)
_NAMED = 5

Cells = tuple[str, ...]


def quiet_seconds(jobs: int) -> float:
    """Return for how long nothing may change where there are so many jobs."""
    return max(_QUIET_SECONDS, _QUIET_SECONDS_A_JOB * jobs)


class StalledError(ClusterError):
    """What was waited for did not come; the text says what is there instead."""


class Table:
    """The newest cells of every object of a namespace, while it is followed."""

    def __init__(
        self,
        noun: str,
        problem: Callable[[], str | None] = lambda: None,
        *,
        quiet: float = _QUIET_SECONDS,
        beside: "Table | None" = None,
    ) -> None:
        """`problem` tells why nothing more will come, None while all processes run.

        Nobody waits once nothing has changed for `quiet` seconds, here and `beside`.
        """
        self.noun = noun
        self._beside = beside
        self._quiet = quiet
        self.rows: dict[str, Cells] = {}
        self.counts: Counter[Cells] = Counter()
        self.appeared: dict[str, float] = {}
        """When (perf_counter) an object of this name was last created."""
        self.became: dict[str, float] = {}
        """When an object of this name came to have its present cells."""
        self._problem = problem
        self._columns: list[str] = []
        self._changed = time.perf_counter()
        self._waiting: list[tuple[Goal, asyncio.Future[float]]] = []
        self._begun = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def follow(
        self, client: Client, path: str, columns: tuple[str, ...]
    ) -> AsyncIterator["Table"]:
        """Keep a collection's rows until the end of the block; `columns` are those that count."""
        self._following = asyncio.create_task(self._follow(client, path, columns))
        begun = asyncio.create_task(self._begun.wait())
        try:
            await asyncio.wait({begun, self._following}, return_when=asyncio.FIRST_COMPLETED)
            self._check()
            yield self
        finally:
            for task in (begun, self._following):
                task.cancel()
            await asyncio.gather(begun, self._following, return_exceptions=True)

    @property
    def changed(self) -> float:
        """When (perf_counter) anything last changed, here or beside."""
        return max(self._changed, self._beside.changed) if self._beside else self._changed

    async def until(self, goal: "Goal") -> float:
        """Return when (perf_counter) a goal was reached.

        Raises StalledError if nothing has changed for too long, after LONGEST_SECONDS, and at once
        if there is a problem.
        """
        began = time.perf_counter()
        if goal.reached(self):
            return began
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((goal, future))
        try:
            while not future.done():
                await asyncio.wait({future}, timeout=min(_LOOK_SECONDS, self._quiet))
                self._check()
                now = time.perf_counter()
                still = now - max(began, self.changed)
                if not future.done() and (still > self._quiet or now - began > LONGEST_SECONDS):
                    raise StalledError(
                        f"{goal.text}: not within {now - began:.0f} s, and nothing has changed for"
                        f" {still:.0f} s; there are {self}"
                    )
        finally:
            self._waiting = [each for each in self._waiting if each[1] is not future]
        return future.result()

    async def rest(self, seconds: float) -> None:
        """Wait until nothing has changed for so long."""
        while (left := self._changed + seconds - time.perf_counter()) > 0:
            self._check()
            await asyncio.sleep(left)

    def __str__(self) -> str:
        """Count the objects by their cells; name some of the less common ones."""
        if not self.rows:
            return f"no {self.noun}"
        parts = []
        for place, (cells, count) in enumerate(self.counts.most_common()):
            names = sorted(name for name, found in self.rows.items() if found == cells)[:_NAMED]
            examples = f" ({', '.join(names)}{', …' if count > _NAMED else ''})" if place else ""
            parts.append(f"{count} {' '.join(cells)}{examples}")
        return f"{self.noun}: {', '.join(parts)}"

    def _check(self) -> None:
        if self._following is not None and self._following.done():
            self._following.result()  # it ends by an error only
        if problem := self._problem():
            raise StalledError(problem)

    async def _follow(self, client: Client, path: str, columns: tuple[str, ...]) -> None:
        """List and watch until cancelled.

        Again and again: the API server ends the watch of a client that is slow to read.
        """
        url, headers = f"{client.url}{path}", {"Accept": _TABLE}
        query = {"includeObject": "None"}
        timeout = aiohttp.ClientTimeout(total=None)
        while True:
            listed = await _listed(client, url, query, headers)
            self.take_listing(listed, columns)
            self._begun.set()
            since = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
            with suppress(*_HUNG_UP):
                async with client.session.get(
                    url, params=query | since, headers=headers, timeout=timeout
                ) as stream:
                    if stream.status in _BUSY:
                        continue
                    stream.raise_for_status()
                    async for line in stream.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        self.take(event, columns)

    def take_listing(self, listed: Mapping[str, Any], columns: tuple[str, ...]) -> None:
        """Replace all rows by those of a table."""
        found = dict(self._cells(listed, columns))
        for name in self.rows.keys() - found.keys():
            self._put(name, None)
        for name, cells in found.items():
            self._put(name, cells)
        self._notify()

    def take(self, event: Mapping[str, Any], columns: tuple[str, ...]) -> None:
        """Take in a watch event."""
        for name, cells in self._cells(event["object"], columns):
            if event["type"] == "ADDED":
                self._put(name, None)
            self._put(name, None if event["type"] == "DELETED" else cells)
        self._notify()

    def _cells(
        self, table: Mapping[str, Any], columns: tuple[str, ...]
    ) -> Iterable[tuple[str, Cells]]:
        if table.get("columnDefinitions"):  # only a listing and the first event have them
            self._columns = [each["name"] for each in table["columnDefinitions"]]
        for row in table["rows"] or ():
            cells = dict(zip(self._columns, row["cells"], strict=True))
            yield str(cells["Name"]), tuple(str(cells[name]) for name in columns)

    def _put(self, name: str, cells: Cells | None) -> None:
        before = self.rows.pop(name, None)
        now = time.perf_counter()
        if before is not None:
            self.counts[before] -= 1
            if not self.counts[before]:
                del self.counts[before]
        elif cells is not None:
            self.appeared[name] = now
        if cells is not None:
            self.rows[name] = cells
            self.counts[cells] += 1
        if cells != before:
            self.became[name] = self._changed = now

    def _notify(self) -> None:
        now = time.perf_counter()
        for goal, future in self._waiting:
            if not future.done() and goal.reached(self):
                future.set_result(now)


async def _listed(
    client: Client, url: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> Any:  # noqa: ANN401 - JSON
    """List; again, for a while, where the API server has no time for it, or hangs up."""
    began = time.monotonic()
    while True:
        patient = time.monotonic() - began < _QUIET_SECONDS
        try:
            async with client.session.get(url, params=query, headers=headers) as answer:
                if not (answer.status in _BUSY and patient):
                    answer.raise_for_status()
                    return await answer.json()
        except _HUNG_UP:
            if not patient:
                raise
        await asyncio.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is waited for, in words, and how to see in a table that it is there."""

    text: str
    reached: Callable[[Table], bool]


def at_least(count: int, what: str, cells: Cells | None = None) -> Goal:
    """Wait for so many objects with these cells; with any, without `cells`."""

    def reached(table: Table) -> bool:
        return (table.counts.total() if cells is None else table.counts[cells]) >= count

    return Goal(f"{count} {what}", reached)


def none_of(names: Iterable[str] | None, what: str) -> Goal:
    """Wait until these objects are gone; all, for None."""
    gone = None if names is None else frozenset(names)

    def reached(table: Table) -> bool:
        return not table.rows if gone is None else gone.isdisjoint(table.rows)

    return Goal(what, reached)


def all_of(names: Iterable[str], what: str, cells: Cells) -> Goal:
    """Wait until each of these objects has these cells."""
    wanted = list(names)
    return Goal(what, lambda table: all(table.rows.get(name) == cells for name in wanted))


def created_since(moments: Mapping[str, float], what: str) -> Goal:
    """Wait until an object of each name was created after its moment (perf_counter)."""

    def reached(table: Table) -> bool:
        return all(table.appeared.get(name, 0.0) > moment for name, moment in moments.items())

    return Goal(what, reached)
