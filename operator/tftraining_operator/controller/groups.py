"""Follows the groups of gang schedulers, by listing them: so it is known which of their APIs exist.

kopf watches what exists when it starts, and these APIs may come and go with a CRD or a permission.
What is urgent about a gang, its pods tell, which are watched. Called by runtime.py.
"""

import logging
from collections.abc import Callable, Sequence

from tftraining_operator.api.scheduling import Gang
from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ApiError, ForbiddenError, NotFoundError
from tftraining_operator.reconcile.store import GROUPS, JobKey, Store

logger = logging.getLogger(__name__)


class Groups:
    """The groups of all schedulers, in the store, and what the cluster offers."""

    def __init__(
        self,
        cluster: KubernetesApi,
        store: Store,
        namespaces: Sequence[str | None],
        look: Callable[[JobKey], None],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._namespaces = namespaces
        self._look = look
        self.offer = Offer()

    async def list(self) -> None:
        """List all groups. What was known of a scheduler stays until a listing tells of it."""
        usable: set[Gang] = set()
        forbidden: set[Gang] = set()
        for gang in GROUPS:
            try:
                await self._list(gang)
            except NotFoundError:
                self._forget(gang)
            except ForbiddenError:
                forbidden.add(gang)
            except ApiError as error:
                # An API of others that does not answer must not stop jobs that do not need it.
                logger.warning("cannot list groups of %s: %s", gang, one_line(error.message))
                usable |= self.offer.usable & {gang}
                forbidden |= self.offer.forbidden & {gang}
            else:
                usable.add(gang)
        offer = Offer(frozenset(usable), frozenset(forbidden))
        if offer != self.offer:
            names = ", ".join(sorted(usable)) or "none"
            logger.info("gang schedulers that can be used: %s", names)
            self.offer = offer
            for key in self._store.job_keys():
                self._look(key)

    async def _list(self, gang: Gang) -> None:
        for namespace in self._namespaces:
            mark = self._store.mark()
            found = await self._cluster.list(GROUPS[gang], namespace)
            self._put(gang, found.items, found.resource_version, namespace, mark)

    def _forget(self, gang: Gang) -> None:
        """Take out the groups of an API that is gone, and with it all that it had."""
        for namespace in self._namespaces:
            self._put(gang, [], "0", namespace, self._store.mark())

    def _put(
        self,
        gang: Gang,
        items: Sequence[dict[str, object]],
        version: str,
        namespace: str | None,
        mark: int,
    ) -> None:
        for key in self._store.replace(GROUPS[gang], items, version, namespace, mark):
            self._look(key)
