"""Follows objects by the API server's tables: a name and a few cells, whatever the objects weigh.

So that the watching costs this machine little, and every contender the same.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from bench.scale.client import Client

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

Reached = Callable[[Counter[tuple[str, ...]]], bool]
"""Tells from the number of objects by their cells whether what is waited for has come."""


class Table:
    """The newest cells of every object of a namespace, while `follow` runs."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._rows: dict[str, tuple[str, ...]] = {}
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._waiting: list[tuple[Reached, asyncio.Future[float]]] = []
        self.begun = asyncio.Event()

    async def follow(self, client: Client, path: str, columns: tuple[str, ...]) -> None:
        """List and watch a collection until cancelled; `columns` are those that are kept.

        Again and again: the API server ends the watch of a client that is slow to read.
        """
        url, headers = f"{client.url}{path}", {"Accept": _TABLE}
        query = {"includeObject": "None"}
        timeout = aiohttp.ClientTimeout(total=None)
        while True:
            async with client.session.get(url, params=query, headers=headers) as answer:
                answer.raise_for_status()
                listed = await answer.json()
            self._rows.clear()
            self._counts.clear()
            self._take({"type": "ADDED", "object": listed}, columns)
            self.begun.set()
            since = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
            async with client.session.get(
                url, params=query | since, headers=headers, timeout=timeout
            ) as stream:
                stream.raise_for_status()
                async for line in stream.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    self._take(event, columns)

    async def until(self, reached: Reached) -> float:
        """Return when (perf_counter) the number of objects by their cells was as asked for."""
        if reached(self._counts):
            return time.perf_counter()
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((reached, future))
        return await future

    def __str__(self) -> str:
        return ", ".join(f"{count} {' '.join(cells)}" for cells, count in self._counts.items())

    def _take(self, event: Mapping[str, Any], columns: tuple[str, ...]) -> None:
        table = event["object"]
        if table.get("columnDefinitions"):  # only the first event has them
            self._columns = [each["name"] for each in table["columnDefinitions"]]
        for row in table["rows"] or ():
            cells = dict(zip(self._columns, row["cells"], strict=True))
            kept = tuple(str(cells[name]) for name in columns)
            self._put(str(cells["Name"]), None if event["type"] == "DELETED" else kept)
        now = time.perf_counter()
        for reached, future in list(self._waiting):
            if reached(self._counts):
                self._waiting.remove((reached, future))
                future.set_result(now)

    def _put(self, name: str, cells: tuple[str, ...] | None) -> None:
        if (before := self._rows.pop(name, None)) is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if cells is not None:
            self._rows[name] = cells
            self._counts[cells] += 1


def at_least(count: int, cells: tuple[str, ...] | None = None) -> Reached:
    """Wait for so many objects with these cells; with any, without `cells`."""

    def reached(counts: Counter[tuple[str, ...]]) -> bool:
        return (counts.total() if cells is None else counts[cells]) >= count

    return reached
