"""Follows the Workloads of Kueue: lists and watches them, where the cluster has them.

Kueue may come, go and be upgraded at any time: they are watched once they can be listed. A list
of groups that is made now and then (groups.py) would not do: a job that is preempted has to stop.
Called by runtime.py.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.controller.watch import Watch
from tftraining_operator.core.schedulers.offer import Availability
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ApiError, ForbiddenError, NotFoundError
from tftraining_operator.reconcile.store import JobKey, Kind, Store

logger = logging.getLogger(__name__)

_Object = dict[str, Any]


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
        self.availability = Availability.MISSING

    async def list(self) -> str | None:
        """List all; return the resource version to watch from, None if they cannot be listed."""
        mark = self._store.mark()
        try:
            found = await self._cluster.list(Kind.WORKLOAD, self._namespace)
        except NotFoundError:
            for key in self._store.clear(Kind.WORKLOAD, self._namespace):
                self._look(key)
            self._have(Availability.MISSING)
        except ForbiddenError:
            self._have(Availability.FORBIDDEN)
        except ApiError as error:
            # Kueue converts what is listed: while it is away, what was known of it stays.
            logger.warning("cannot list Workloads: %s", one_line(error.message))
            if self.availability is Availability.MISSING:
                self._have(Availability.SILENT)
        else:
            version = found.resource_version
            for key in self._store.replace(
                Kind.WORKLOAD, found.items, version, self._namespace, mark
            ):
                self._look(key)
            self._have(Availability.USABLE)
            return version
        return None

    async def follow(self, seconds: float) -> None:
        """Follow them for ever; look every so many seconds whether they have become available."""

        async def list_once_available(_kind: Kind, _namespace: str | None) -> str:
            while True:
                version = await self.list()
                if version is not None:
                    return version
                await asyncio.sleep(seconds)

        watch = Watch(self._cluster, Kind.WORKLOAD, self._namespace, self._see, list_once_available)
        await watch.follow("")

    def _see(self, kind: Kind, raw: _Object, event_type: str) -> None:
        take_in = self._store.remove if event_type == "DELETED" else self._store.put
        if (key := take_in(kind, raw)) is not None:
            self._look(key)

    def _have(self, found: Availability) -> None:
        if found is not self.availability:
            self.availability = found
            where = f" in namespace {self._namespace}" if self._namespace else ""
            usable = "yes" if found is Availability.USABLE else "no"
            logger.info("Kueue can be used%s: %s", where, usable)
            self._changed()
