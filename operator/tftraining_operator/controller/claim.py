"""The Lease of one namespace that says which installation works on the jobs in it.

An installation is all processes of one release; its name in the lease is the same for all of them,
so that a leader finds its predecessor's claims its own. The election is that of the leader. Used
by claims.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tftraining_operator.api.keys import GROUP, PLURAL
from tftraining_operator.controller.leader import ATTEMPT, LeaseApi
from tftraining_operator.controller.shard_lease import ShardLease, without_request
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import version_of

_Object = dict[str, Any]

LEASE = f"{PLURAL}.{GROUP}"
"""Name of the lease, the same in all namespaces and for all installations."""


class Claim(ShardLease):
    """The claim to one namespace.

    Who was told to watch it by name does not give it up; who watches all namespaces does, when
    another installation asks for it.
    """

    def __init__(
        self,
        api: LeaseApi,
        *,
        namespace: str,
        installation: str,
        seconds: int,
        named: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            api,
            namespace=namespace,
            name=LEASE,
            identity=installation,
            seconds=seconds,
            clock=clock,
        )
        self.namespace = namespace
        self.named = named

    @property
    def taken_by(self) -> str:
        """The other installation that has the namespace, or that it was given up for."""
        if self.holder not in ("", self._identity):
            return self.holder
        return "" if self.requested_by == self._identity else self.requested_by

    @property
    def wanted_by_another(self) -> bool:
        """Whether it is to be given up."""
        return not self.named and self.requested_by not in ("", self._identity)

    async def take(self) -> bool:
        """Take the namespace if it is free, else ask for it; tell whether it was taken.

        Raises errors.ApiError.
        """
        try:
            async with asyncio.timeout(self._seconds * ATTEMPT):
                began = self._clock()
                self._lease = await self._look()
                if self._is_free(self._lease):
                    try:
                        await self._claim(self._lease)
                    except (errors.ConflictError, errors.AlreadyExistsError):
                        return await self._was_claimed_beside(began)
                    return True
        except (errors.ApiError, TimeoutError) as error:
            # Its holder could not renew it either.
            self._seen = None
            raise self._api_error(error) from error
        if self.named and self.requested_by != self._identity:
            await self.request()
        return False

    async def _was_claimed_beside(self, began: float) -> bool:
        """Tell whether who was faster, after this moment, is a process of this installation."""
        self._lease = await self._look()
        if self._lease is None or self.holder != self._identity:
            return False
        self._written, self._renewed_at = version_of(self._lease), began
        return True

    async def renew(self) -> None:
        """Renew it. Raises LeaseLostError, errors.ApiError."""
        try:
            async with asyncio.timeout(self._seconds * ATTEMPT):
                await self._renew()
        except TimeoutError as error:
            raise self._api_error(error) from error

    def _is_free(self, lease: _Object | None) -> bool:
        if self.wanted_by_another and not self.holder:
            # Given up for whom asked; its answer may take as long as another's claim lasts.
            return self._unrenewed_for() >= self._lasts()
        if self.wanted_by_another and self.holder == self._identity:
            # Our processes let it end, and only then whoever asked can answer.
            return self._unrenewed_for() >= 2 * self._lasts()
        return super()._is_free(lease)

    def _is_lost(self, lease: _Object | None) -> bool:
        given_up = not self.holder and self.wanted_by_another
        return given_up or super()._is_lost(lease)

    def _held(self, lease: _Object) -> _Object:
        lease = super()._held(lease)
        if self.seconds_left() > 0:
            return lease
        # Who asked while it was ours has had its time.
        return without_request(lease)

    def _api_error(self, error: Exception) -> errors.ApiError:
        if isinstance(error, errors.ApiError):
            return error
        return errors.TransientError(f"the lease of namespace {self.namespace}: timed out")

    def _note_holder(self, holder: str) -> None:
        """Say nothing: claims does, where it is another's."""
