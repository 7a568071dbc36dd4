"""Lists the jobs' NetworkPolicies and PodDisruptionBudgets, and so finds out whether it may.

Without that permission, which an older chart does not give, jobs train on, and say so; what cannot
be listed is not watched. Called by runtime.py.
"""

import logging
from collections.abc import Callable

from tftraining_operator.controller.kubernetes_api import KubernetesApi, plural
from tftraining_operator.controller.listings import take_in
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ForbiddenError
from tftraining_operator.reconcile.store import JobKey, Kind, Store

logger = logging.getLogger(__name__)


class Safeguards:
    """The objects of one kind of all jobs, in the store, and where they cannot be used, and why."""

    def __init__(
        self,
        kind: Kind,
        cluster: KubernetesApi,
        store: Store,
        look: Callable[[JobKey], None],
    ) -> None:
        self.kind = kind
        self._cluster = cluster
        self._store = store
        self._look = look
        self._problems: dict[str | None, str] = {}
        self.versions: dict[tuple[Kind, str | None], str] = {}
        """The resource version at which they were listed last, by namespace."""

    def problem(self, namespace: str) -> str:
        """Say why they cannot be used in a namespace; "" if they can."""
        return self._problems.get(namespace) or self._problems.get(None, "")

    async def list(self, namespace: str | None) -> None:
        """List those of a namespace. Raises ApiError, but none for a missing permission."""
        problem = ""
        try:
            self.versions[self.kind, namespace] = await take_in(
                self._cluster, self._store, self.kind, namespace, self._look
            )
        except ForbiddenError as error:
            problem = (
                f"the operator has no permission for {plural(self.kind)}: upgrade its chart"
                f" ({one_line(error.message)})"
            )
        if problem != self._problems.get(namespace, ""):
            if problem:
                logger.warning("jobs get no %s: %s", self.kind, problem)
            self._problems[namespace] = problem
            for key in self._store.job_keys(namespace):
                self._look(key)
