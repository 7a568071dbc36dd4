"""Follows the groups of gang schedulers, by listing them: so it is known which of their APIs exist.

A watch needs an API that exists, and these may come and go with a CRD or a permission.
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
        versions: dict[Gang, str] = {}
        forbidden: set[Gang] = set()
        for gang in GROUPS:
            try:
                versions[gang] = await self._list(gang)
            except NotFoundError:
                self._forget(gang)
            except ForbiddenError:
                forbidden.add(gang)
            except ApiError as error:
                # An API of others that does not answer must not stop jobs that do not need it.
                logger.warning("cannot list groups of %s: %s", gang, one_line(error.message))
                if gang in self.offer.versions:
                    versions[gang] = self.offer.versions[gang]
                forbidden |= self.offer.forbidden & {gang}
        offer = Offer(versions, frozenset(forbidden))
        if offer != self.offer:
            names = ", ".join(f"{gang} ({version})" for gang, version in sorted(versions.items()))
            logger.info("gang schedulers that can be used: %s", names or "none")
            self.offer = offer
            for key in self._store.job_keys():
                self._look(key)

    async def _list(self, gang: Gang) -> str:
        """List the groups of a scheduler; return the version of its API."""
        kind = GROUPS[gang]
        for namespace in self._namespaces:
            mark = self._store.mark()
            found = await self._cluster.list(kind, namespace)
            version = found.resource_version
            for key in self._store.replace(kind, found.items, version, namespace, mark):
                self._look(key)
        return self._cluster.version(kind)

    def _forget(self, gang: Gang) -> None:
        """Take out the groups of an API that is gone, and with it all that it had."""
        for namespace in self._namespaces:
            for key in self._store.clear(GROUPS[gang], namespace):
                self._look(key)
