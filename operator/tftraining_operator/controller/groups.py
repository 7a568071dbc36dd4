"""Follows the groups of gang schedulers, by listing them: so it is known which of their APIs exist.

A watch needs an API that exists, and these may come and go with a CRD or a permission.
What is urgent about a gang, its pods tell, which are watched. Called by runtime.py.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tftraining_operator.api.scheduling import Gang
from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    TransientError,
)
from tftraining_operator.reconcile.store import GROUPS, JobKey, Kind, Store

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0
"""How long Kubernetes' own groups are asked for again until they have answered once: a job that
starts before it is known whether it can have a gang has none until it is suspended."""
_AGAIN_SECONDS = 1.0

_Versions = dict[str | None, str | None]
"""The version of a scheduler's API by namespace, None where it is forbidden."""


class Groups:
    """The groups of all schedulers, in the store, and what can be used of them where."""

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
        self._versions: dict[Gang, _Versions] = {}
        self._offers: dict[str | None, Offer] = {}
        self._answered: set[Gang] = set()
        """Schedulers of which it was once known whether their API exists."""

    def offer(self, namespace: str) -> Offer:
        """Return what can be used in a namespace."""
        return self._offers.get(namespace) or self._offers.get(None) or Offer()

    async def list(self) -> None:
        """List all groups. What was known of a scheduler stays until a listing tells of it."""
        self._versions = {gang: await self._list(gang) for gang in GROUPS}
        for namespace in self._namespaces:
            offer = _offered(self._versions, namespace)
            self._have(namespace, replace(offer, silent=frozenset(GROUPS.keys() - self._answered)))

    async def _list(self, gang: Gang) -> _Versions:
        """List the groups of a scheduler, where that is allowed."""
        found: _Versions = {}
        for namespace in self._namespaces:
            try:
                found[namespace] = await self._answer(gang, namespace)
            except NotFoundError:
                self._answered.add(gang)
                self._forget(gang)
                return {}
            except ForbiddenError:
                found[namespace] = None
            except ApiError as error:
                # An API of others that does not answer must not stop jobs that do not need it.
                logger.warning("cannot list groups of %s: %s", gang, one_line(error.message))
                return self._versions.get(gang, {}) | found
        self._answered.add(gang)
        return found

    async def _answer(self, gang: Gang, namespace: str | None) -> str:
        """List the groups of a scheduler, patiently at the start; return the version of its API."""
        loop = asyncio.get_running_loop()
        is_patient = gang is Gang.IN_TREE and gang not in self._answered
        until = loop.time() + (_PATIENCE_SECONDS if is_patient else 0.0)
        while True:
            try:
                return await self._list_in(namespace, GROUPS[gang])
            except TransientError:
                if loop.time() >= until:
                    raise
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _list_in(self, namespace: str | None, kind: Kind) -> str:
        """List the groups of a scheduler; return the version of its API."""
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

    def _have(self, namespace: str | None, offer: Offer) -> None:
        if offer == self._offers.get(namespace, Offer()):
            return
        self._offers[namespace] = offer
        versions = sorted(offer.versions.items())
        logger.info(
            "gang schedulers that can be used%s: %s",
            f" in namespace {namespace}" if namespace else "",
            ", ".join(f"{gang} ({version})" for gang, version in versions) or "none",
        )
        for key in self._store.job_keys(namespace):
            self._look(key)


def _offered(listed: Mapping[Gang, _Versions], namespace: str | None) -> Offer:
    found = {gang: each[namespace] for gang, each in listed.items() if namespace in each}
    versions = {gang: version for gang, version in found.items() if version is not None}
    return Offer(versions, frozenset(found.keys() - versions.keys()))
