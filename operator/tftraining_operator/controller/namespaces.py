"""The namespaces in which this process works on jobs: all that it watches, or those it has claimed.

An operator with a lease claims each namespace (claims), so that no two installations work on one
job. Used by runtime.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from tftraining_operator.controller.access import Access
from tftraining_operator.controller.claims import Claims, State
from tftraining_operator.controller.leader import LeaseApi
from tftraining_operator.controller.listings import Listings
from tftraining_operator.controller.settings import Settings
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.reconciler import Reconciler
from tftraining_operator.reconcile.store import JobKey, Store
from tftraining_operator.reconcile.workqueue import WorkQueue

logger = logging.getLogger(__name__)


class Namespaces:
    """Lets passes run where this installation works, and may read."""

    def __init__(
        self,
        settings: Settings,
        api: LeaseApi,
        store: Store,
        *,
        access: Access,
        listings: Listings,
        reconciler: Reconciler,
        look_at: Callable[[Iterable[JobKey]], None],
    ) -> None:
        self._store = store
        self._access = access
        self._listings = listings
        self._reconciler = reconciler
        self._look_at = look_at
        self._queue: WorkQueue[JobKey] | None = None
        self._claims = _claims(settings, api, self)

    def serve(self, queue: WorkQueue[JobKey]) -> None:
        """Name the queue of the passes."""
        self._queue = queue

    async def has(self, namespace: str) -> bool:
        """Tell whether this installation may work in a namespace. Raises errors.ApiError."""
        if self._access.is_forbidden(namespace):
            return False
        return self._claims is None or await self._claims.has(namespace)

    async def pass_over(self, key: JobKey) -> float | None:
        """Do a pass over a job where that is allowed. Raises errors.ApiError."""
        if not self._store.has_job(key):
            return await self._reconciler(key)
        if not await self.has(key.namespace):
            return None
        if self._claims is None:
            return await self._reconciler(key)
        async with _while_claimed(self._claims, key.namespace):
            return await self._reconciler(key)

    def works_in(self, namespace: str) -> bool:
        """Tell whether the jobs of a namespace are worked on here."""
        if self._access.is_forbidden(namespace):
            return False
        return self._claims is None or self._claims.holds(namespace)

    def count(self, state: State) -> int:
        """Return how many namespaces are in a state; without claims none is, but forbidden."""
        if state is State.FORBIDDEN:
            return len(self._access.forbidden())
        return 0 if self._claims is None else self._claims.count(state)

    def problem(self) -> str | None:
        """Return which namespaces, of those named in the settings, another installation has."""
        return None if self._claims is None else self._claims.problem()

    async def keep(self) -> None:
        """Keep the claims until cancelled."""
        if self._claims is None:
            await asyncio.Event().wait()
        else:
            await self._claims.keep(lambda: {key.namespace for key in self._store.job_keys()})

    async def regain(self, seconds: float) -> None:
        """Leave forbidden namespaces; look every so many seconds whether they can be read again."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.gather(*map(self._regain, self._access.forbidden()))

    async def take_over(self) -> None:
        """List everything: what another operator wrote last, a watch may not have told yet."""
        await self._listings.succeed()

    async def leave(self, namespace: str) -> None:
        """Wait for the passes in a namespace, of which none begins, and forget its jobs."""
        if self._queue is not None:
            await self._queue.ended(lambda key: key.namespace == namespace)
        for key in self._store.job_keys(namespace):
            self._reconciler.forget(key)

    def look_into(self, namespace: str) -> None:
        """Ask for passes over a namespace's jobs."""
        self._look_at(self._store.job_keys(namespace))

    async def may_read(self, namespace: str) -> bool:
        """Ask whether a namespace may be read. Raises errors.ApiError."""
        return await self._listings.may_read(namespace)

    async def _regain(self, namespace: str) -> None:
        await self.leave(namespace)
        try:
            await self._listings.list_again(namespace)
        except errors.ApiError as error:
            logger.warning("cannot list namespace %s yet: %s", namespace, one_line(error.message))


@asynccontextmanager
async def _while_claimed(claims: Claims, namespace: str) -> AsyncIterator[None]:
    """Cancel what is done when the claim has ended, however often it was renewed before.

    Raises errors.NotLeadingError then.
    """
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)
    look_again: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal look_again
        if (left := claims.seconds_left(namespace)) <= 0:
            limit.reschedule(loop.time())
        elif left < math.inf:
            look_again = loop.call_later(left, look)

    try:
        async with limit:
            look()
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        text = f"the lease of namespace {namespace} was not renewed in time"
        raise errors.NotLeadingError(text) from error
    finally:
        if look_again is not None:
            look_again.cancel()


def _claims(settings: Settings, api: LeaseApi, worker: Namespaces) -> Claims | None:
    if not settings.lease_namespace:
        return None
    return Claims(
        api,
        worker,
        installation=f"{settings.lease_namespace}/{settings.lease_name}",
        seconds=settings.lease_seconds,
        named=settings.namespaces,
        shared=settings.shards > 1,
    )
