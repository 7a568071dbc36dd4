"""The Lease of one shard: that of an unsharded operator, and a way to ask its holder for it."""

import asyncio
import logging
from typing import Any

from tftraining_operator.api.keys import GROUP
from tftraining_operator.controller.leader import ATTEMPT, Candidate, holder_of
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile import errors

logger = logging.getLogger(__name__)

_Object = dict[str, Any]

_REQUESTED_BY = f"{GROUP}/requested-by"
"""Annotation: who asks the holder to release the lease."""


class ShardLease(Candidate):
    """One of several leases; see shards."""

    async def look(self) -> None:
        """Learn who holds it. Raises errors.ApiError."""
        self._lease = await self._look()

    @property
    def requested_by(self) -> str:
        """Who asks its holder to release it, "" for nobody."""
        return str(_annotations(self._lease).get(_REQUESTED_BY) or "")

    def free_for(self) -> float:
        """Return for how long (s) it could have been acquired; negative while it cannot be."""
        held = self.holder not in ("", self._identity)
        return self._unrenewed_for() - (self._lasts() if held else 0.0)

    async def request(self) -> None:
        """Ask its holder to release it; whether that could be written shows when it is read."""
        if self._lease is None:
            return
        annotations = {**_annotations(self._lease), _REQUESTED_BY: self._identity}
        metadata = {**self._lease["metadata"], "annotations": annotations}
        try:
            async with asyncio.timeout(self._seconds * ATTEMPT):
                await self._api.replace_lease({**self._lease, "metadata": metadata})
        except (errors.ApiError, TimeoutError) as error:
            logger.info("could not ask %s for its lease: %s", one_line(self.holder), error)

    def _held(self, lease: _Object) -> _Object:
        if holder_of(lease) != self._identity or self.requested_by == self._identity:
            # The request was to the holder before.
            lease = without_request(lease)
        return super()._held(lease)


def without_request(lease: _Object) -> _Object:
    """Return a lease for which nobody asks."""
    kept = {name: text for name, text in _annotations(lease).items() if name != _REQUESTED_BY}
    return {**lease, "metadata": {**lease["metadata"], "annotations": kept}}


def _annotations(lease: _Object | None) -> dict[str, str]:
    return (lease or {}).get("metadata", {}).get("annotations") or {}
