"""Follows jobs, and what they own, from where they were listed; called by runtime.py.

By watches of the operator's own: each event costs kopf a task, a queue and several objects before a
handler is called, and at its start it lists all objects once more.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from tftraining_operator.controller.access import Access
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ApiError
from tftraining_operator.reconcile.store import Kind

logger = logging.getLogger(__name__)

_Object = dict[str, Any]

_WATCH_SECONDS = (200, 300)
"""For so long, drawn for each: shards that started together don't all begin anew at once."""
_PAUSE_SECONDS = 1.0

_EXPIRED = 410
"""Code of a resource version that is too old to watch from."""
_VERSION_IS_GOOD = (0, 429)
"""Codes that say nothing of the version: no answer at all, and too many requests."""


class WatchApi(Protocol):
    """The call of a watch; see controller.kubernetes_api."""

    def watch(  # noqa: D102
        self,
        kind: Kind,
        namespace: str | None,
        resource_version: str,
        seconds: int,
    ) -> AsyncIterator[_Object]: ...


class Watch:
    """The objects of one kind, in one namespace or in all."""

    def __init__(
        self,
        cluster: WatchApi,
        kind: Kind,
        namespace: str | None,
        see: Callable[[Kind, _Object, str], None],
        list_all: Callable[[Kind, str | None], Awaitable[str]],
        *,
        access: Access | None = None,
    ) -> None:
        """Follow them; `list_all` takes in a whole listing and returns its resource version."""
        self._cluster = cluster
        self._kind = kind
        self._namespace = namespace
        self._see = see
        self._list_all = list_all
        self._access = access or Access()
        self._version = ""
        self._problem = ""

    async def follow(self, version: str) -> None:
        """Follow them for ever, from a resource version on."""
        self._version = version
        while True:
            await self._access.wait(self._namespace)
            try:
                if not self._version:
                    self._version = await self._list_all(self._kind, self._namespace)
                await self._watch()
            except ApiError as error:
                # Whatever the server says against a version, one that it lists is good.
                if error.status not in _VERSION_IS_GOOD:
                    self._version = ""
                if error.status == _EXPIRED or self._access.is_forbidden(self._namespace):
                    continue
                self._warn(one_line(error.message))
                await _pause()

    async def _watch(self) -> None:
        began, before = time.monotonic(), self._version
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 - jitter
        events = self._cluster.watch(self._kind, self._namespace, self._version, seconds)
        async for event in events:
            what, raw = event["type"], event["object"]
            if what == "ERROR":
                raise ApiError(str(raw.get("message")), status=int(raw.get("code") or 0))
            self._version, self._problem = raw["metadata"]["resourceVersion"], ""
            if what != "BOOKMARK":
                self._see(self._kind, raw, what)
        if self._version == before and time.monotonic() - began < _PAUSE_SECONDS:
            # As where something between ends what it does not know: asked again at once, for ever.
            await _pause()

    def _warn(self, problem: str) -> None:
        """Tell what ended the watch: once, though a permission may be missing for days."""
        if problem != self._problem:
            logger.warning("the watch of %ss ended: %s", self._kind.word, problem)
        self._problem = problem


async def _pause() -> None:
    await asyncio.sleep(_PAUSE_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
