"""Which of the namespaces in watchNamespaces the operator may not read: they are left out.

With Roles only, everything in a namespace that is gone, or whose Role or RoleBinding is, answers
403, and whoever has Kubernetes' role admin there may delete these: no other namespace may suffer
from it. Learned by listings, asked by whoever would read or write there.
"""

import asyncio
import logging

from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile.errors import ForbiddenError

logger = logging.getLogger(__name__)


class Access:
    """Namespaces that are forbidden; without a name, all of them together never are."""

    def __init__(self) -> None:
        self._forbidden: dict[str, asyncio.Event] = {}
        """What tells that a namespace may be read again, of each that may not."""

    def is_forbidden(self, namespace: str | None) -> bool:
        """Tell whether a namespace may not be read."""
        return namespace in self._forbidden

    def forbidden(self) -> list[str]:
        """Return the namespaces that may not be read."""
        return list(self._forbidden)

    def lose(self, namespace: str, error: ForbiddenError) -> None:
        """Note that a namespace may not be read; warn of it once."""
        if namespace not in self._forbidden:
            self._forbidden[namespace] = asyncio.Event()
            logger.warning(
                "cannot read namespace %s, and do not work on its jobs until it can be: does it"
                " exist, with the operator's Role and RoleBinding? helm upgrade creates them (%s)",
                namespace,
                one_line(error.message),
            )

    def regain(self, namespace: str | None) -> bool:
        """Note that a namespace was read; tell whether it could not be before."""
        if namespace is None or (regained := self._forbidden.pop(namespace, None)) is None:
            return False
        logger.info("namespace %s can be read again", namespace)
        regained.set()
        return True

    async def wait(self, namespace: str | None) -> None:
        """Return once a namespace may be read: at once, unless it is forbidden."""
        if namespace is not None and namespace in self._forbidden:
            await self._forbidden[namespace].wait()
