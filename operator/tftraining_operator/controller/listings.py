"""Lists all that the store keeps: at the start, every few minutes, and when a shard is gained.

Called by runtime.py. In between, watches tell of changes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ApiError
from tftraining_operator.reconcile.store import JobKey, Kind, Store

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


class Listings:
    """Listings of these namespaces, one after the other; None stands for all."""

    def __init__(
        self,
        cluster: KubernetesApi,
        store: Store,
        namespaces: Sequence[str | None],
        look: Callable[[JobKey], None],
        *,
        first: Sequence[Callable[[], Awaitable[object]]],
        beside: Sequence[Callable[[str | None], Awaitable[object]]],
    ) -> None:
        """List what `first` lists; then pods, services and jobs, and what `beside` lists there."""
        self._cluster = cluster
        self._store = store
        self._namespaces = namespaces
        self._look = look
        self._first = first
        self._beside = beside
        self._lock = asyncio.Lock()
        self.versions: dict[tuple[Kind, str | None], str] = {}
        """The resource version at which each kind was listed last, by namespace."""
        self.took = 0.0
        """How long (s) the last listing of everything took."""

    async def list_all(self) -> None:
        """List everything. Raises ApiError."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            began = loop.time()
            # Before the passes: a gang whose scheduler is not known would be refused.
            for each in self._first:
                await each()
            for namespace in self._namespaces:
                await self._list_everything(namespace)
            self.took = loop.time() - began

    async def succeed(self) -> None:
        """List everything; again and again if the API server does not answer."""
        while True:
            try:
                await self.list_all()
            except ApiError as error:
                # kopf would repeat a failed startup only after a minute.
                logger.warning(
                    "cannot list jobs, pods and services yet (%s); is the CRD installed?",
                    one_line(error.message),
                )
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return

    async def list_kind(self, kind: Kind, namespace: str | None) -> str:
        """List one kind in a namespace; return its resource version. Raises ApiError."""
        async with self._lock:
            return await self._list(kind, namespace)

    async def _list_everything(self, namespace: str | None) -> None:
        # These first: where they are forbidden, what is said of the others would mislead.
        for kind in (Kind.POD, Kind.SERVICE):
            self.versions[kind, namespace] = await self._list(kind, namespace)
        for each in self._beside:
            await each(namespace)
        self.versions[Kind.JOB, namespace] = await self._list(Kind.JOB, namespace)
        # Before the passes: a chief that is not known would be restarted.
        for raw in (await self._cluster.list_unlabelled_pods(namespace)).items:
            if (key := self._store.put(Kind.POD, raw)) is not None:
                self._look(key)

    async def _list(self, kind: Kind, namespace: str | None) -> str:
        return await take_in(self._cluster, self._store, kind, namespace, self._look)


async def take_in(
    cluster: KubernetesApi,
    store: Store,
    kind: Kind,
    namespace: str | None,
    look: Callable[[JobKey], None],
) -> str:
    """List a kind into the store, page by page; return the resource version. Raises ApiError."""
    listing, version = store.begin_listing(kind, namespace), ""
    async for page in cluster.pages(kind, namespace):
        version = page.resource_version
        for key in store.take_page(listing, page.items, version, is_cut=page.is_cut):
            look(key)
    for key in store.end_listing(listing, version):
        look(key)
    return version
