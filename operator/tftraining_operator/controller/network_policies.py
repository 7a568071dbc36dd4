"""Lists the jobs' NetworkPolicies, and so finds out whether the operator may use them.

Without that permission jobs train on, and say so; kopf must not watch what it cannot list. Called
by runtime.py.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from tftraining_operator.controller.kubernetes_api import KubernetesApi
from tftraining_operator.core.networking import Networking
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ForbiddenError
from tftraining_operator.reconcile.store import JobKey, Kind, Store

logger = logging.getLogger(__name__)


class NetworkPolicies:
    """The NetworkPolicies of all jobs, in the store, and what is known about using them."""

    def __init__(
        self,
        cluster: KubernetesApi,
        store: Store,
        namespaces: Sequence[str | None],
        networking: Networking,
        look: Callable[[JobKey], None],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._namespaces = namespaces
        self._look = look
        self.networking = networking

    async def list(self) -> None:
        """List them all. Raises ApiError, but none for a missing permission."""
        problem = ""
        for namespace in self._namespaces:
            mark = self._store.mark()
            try:
                found = await self._cluster.list(Kind.NETWORK_POLICY, namespace)
            except ForbiddenError as error:
                problem = (
                    "the operator has no permission for NetworkPolicies: upgrade its chart"
                    f" ({one_line(error.message)})"
                )
                continue
            kind, version = Kind.NETWORK_POLICY, found.resource_version
            for key in self._store.replace(kind, found.items, version, namespace, mark):
                self._look(key)
        if problem != self.networking.problem:
            if problem:
                logger.warning("jobs get no NetworkPolicy: %s", problem)
            self.networking = replace(self.networking, problem=problem)
            for key in self._store.job_keys():
                self._look(key)
