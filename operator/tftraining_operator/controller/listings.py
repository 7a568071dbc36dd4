"""Lists all that the store keeps: at the start, every few minutes, and when a shard is gained.

Called by runtime.py. In between, watches tell of changes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from tftraining_operator.controller import garbage
from tftraining_operator.controller.access import Access
from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ApiError, ForbiddenError
from tftraining_operator.reconcile.store import JobKey, Kind, Store

logger = logging.getLogger(__name__)

KINDS = (Kind.POD, Kind.SERVICE, Kind.JOB)
"""What has to be read in a namespace whose jobs are worked on."""

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
        access: Access,
        first: Sequence[Callable[[], Awaitable[object]]],
        beside: Sequence[Callable[[str | None], Awaitable[object]]],
    ) -> None:
        """List what `first` lists; then pods, services and jobs, and what `beside` lists there."""
        self._cluster = cluster
        self._store = store
        self._namespaces = namespaces
        self._look = look
        self._access = access
        self._first = first
        self._beside = beside
        self._lock = asyncio.Lock()
        self.versions: dict[tuple[Kind, str | None], str] = {}
        """The resource version at which each kind was listed last, by namespace."""
        self.took = 0.0
        """How long (s) the last listing of everything took."""

    async def list_all(self) -> None:
        """List everything, but for forbidden namespaces. Raises ApiError; also if all are."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            began = loop.time()
            # Before the passes: a gang whose scheduler is not known would be refused.
            for each in self._first:
                await each()
            refusals = [await self._try(namespace) for namespace in self._namespaces]
            if (refusal := refusals[0]) is not None and all(refusals):
                raise refusal
            self.took = loop.time() - began

    async def list_again(self, namespace: str) -> None:
        """List everything of a forbidden namespace, if it can be read by now. Raises ApiError."""
        async with self._lock:
            await self._try(namespace)

    async def may_read(self, namespace: str) -> bool:
        """Ask whether a namespace may be read, if it is a named one. Raises ApiError."""
        if namespace in self._namespaces and not self._access.is_forbidden(namespace):
            try:
                await self._cluster.list_unlabelled_pods(namespace)
            except ForbiddenError as error:
                self._access.lose(namespace, error)
        return not self._access.is_forbidden(namespace)

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
                garbage.look_now()
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return

    async def list_kind(self, kind: Kind, namespace: str | None) -> str:
        """List one kind in a namespace; return its resource version. Raises ApiError."""
        async with self._lock:
            try:
                return await self._list(kind, namespace)
            except ForbiddenError as error:
                if namespace is not None and kind in KINDS:
                    self._access.lose(namespace, error)
                raise

    async def _try(self, namespace: str | None) -> ForbiddenError | None:
        """List a namespace; return why it is forbidden, None if it is not. Raises ApiError."""
        try:
            await self._list_everything(namespace)
        except ForbiddenError as error:
            if namespace is None:
                raise
            self._access.lose(namespace, error)
            return error
        if self._access.regain(namespace):
            for key in self._store.job_keys(namespace):
                self._look(key)
        return None

    async def _list_everything(self, namespace: str | None) -> None:
        # These first: where they are forbidden, what is said of the others would mislead.
        for kind in (Kind.POD, Kind.SERVICE):
            self.versions[kind, namespace] = await self._list(kind, namespace)
        if self._access.is_forbidden(namespace):
            for each in self._first:
                await each()
        for one in self._beside:
            await one(namespace)
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
