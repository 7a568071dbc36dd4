"""Follows the Workloads of Kueue: lists and watches them, where the cluster has them.

watch.py needs an API that exists, and Kueue may come, go and be upgraded at any time. A list
of groups that is made now and then (groups.py) would not do: a job that is preempted has to stop.
Called by runtime.py.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ApiError, ForbiddenError, NotFoundError
from tftraining_operator.reconcile.store import JobKey, Kind, Store

logger = logging.getLogger(__name__)

_WATCH_SECONDS = 300

_EXPIRED = 410
"""Code of a resource version that is too old to watch from."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether Workloads can be listed."""

    usable: bool = False
    forbidden: bool = False


class Workloads:
    """The Workloads of one namespace, or of all, in the store."""

    def __init__(
        self,
        cluster: KubernetesApi,
        store: Store,
        namespace: str | None,
        look: Callable[[JobKey], None],
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._namespace = namespace
        self._look = look
        self._changed = changed
        self.availability = Availability()

    async def list(self) -> str | None:
        """List all; return the resource version to watch from, None if they cannot be listed."""
        mark = self._store.mark()
        try:
            found = await self._cluster.list(Kind.WORKLOAD, self._namespace)
        except NotFoundError:
            for key in self._store.clear(Kind.WORKLOAD, self._namespace):
                self._look(key)
            self._have(Availability())
        except ForbiddenError:
            self._have(Availability(forbidden=True))
        except ApiError as error:
            # Kueue converts what is listed: while it is away, what was known of it stays.
            logger.warning("cannot list Workloads: %s", one_line(error.message))
        else:
            version = found.resource_version
            for key in self._store.replace(
                Kind.WORKLOAD, found.items, version, self._namespace, mark
            ):
                self._look(key)
            self._have(Availability(usable=True))
            return version
        return None

    async def follow(self, seconds: float) -> None:
        """Follow them for ever; look every so many seconds whether they have become available."""
        while True:
            version = await self.list()
            if version is None:
                await asyncio.sleep(seconds)
                continue
            try:
                await self._watch(version)
            except ApiError as error:
                logger.warning("the watch of Workloads ended: %s", one_line(error.message))
                await asyncio.sleep(min(seconds, 1.0))

    async def _watch(self, version: str) -> None:
        events = self._cluster.watch(Kind.WORKLOAD, self._namespace, version, _WATCH_SECONDS)
        async for event in events:
            kind, raw = event["type"], event["object"]
            if kind == "ERROR":
                if raw.get("code") != _EXPIRED:
                    logger.warning("watching Workloads: %s", one_line(str(raw.get("message"))))
                return
            if kind == "BOOKMARK":
                continue
            if kind == "DELETED":
                key = self._store.remove(Kind.WORKLOAD, raw)
            else:
                key = self._store.put(Kind.WORKLOAD, raw)
            if key is not None:
                self._look(key)

    def _have(self, found: Availability) -> None:
        if found != self.availability:
            self.availability = found
            where = f" in namespace {self._namespace}" if self._namespace else ""
            logger.info("Kueue can be used%s: %s", where, "yes" if found.usable else "no")
            self._changed()
