"""Leader election: of several operator processes, the holder of a coordination.k8s.io Lease works.

The protocol is client-go's. A standby trusts no clock but its own: it counts from when it saw the
lease change. The leader counts from before it asked for a renewal, so that its time ends first.
Why not the client's own election: docs/adr/004. Used by main, and by shard_lease for each shard.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import version_of

logger = logging.getLogger(__name__)

_Object = dict[str, Any]

_API_VERSION = "coordination.k8s.io/v1"

# Shares of the lease's duration; client-go's for 15 s are 10 and 2.
_DEADLINE = 2 / 3
"""A leader that could not renew for so long lost leadership; the rest is for calls in flight."""
_RENEW = 2 / 15
RETRY = 1 / 15
ATTEMPT = 1 / 3
_RESTORED = (
    "its resource version went back, as after a restore of etcd: what this process knows, and from "
    "where it watches, is of another time"
)


class LeaseLostError(Exception):
    """Leadership is lost; the text says why."""


class LeaseApi(Protocol):
    """The calls of an election; see controller.kubernetes_api."""

    async def get_lease(self, namespace: str, name: str) -> _Object: ...  # noqa: D102
    async def create_lease(self, body: _Object) -> _Object: ...  # noqa: D102
    async def replace_lease(self, body: _Object) -> _Object: ...  # noqa: D102


class Leadership(Protocol):
    """The right to work."""

    async def acquire(self) -> None:
        """Wait until this process leads."""

    async def keep(self) -> None:
        """Keep leading; never returns. Raises LeaseLostError."""

    async def release(self) -> None:
        """Give up leadership, if this process has it."""

    def seconds_left(self) -> float:
        """Return how long (s) this process may still write; 0 or less if it may not."""

    def problem(self) -> str | None:
        """Return why this process could not become leader, None if it could."""


class Alone:
    """Always leads: for the only process of an installation."""

    async def acquire(self) -> None:
        """Lead at once."""

    async def keep(self) -> None:
        """Lead until cancelled."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Do nothing: no other process waits."""

    def seconds_left(self) -> float:
        """Return infinity."""
        return math.inf

    def problem(self) -> str | None:
        """Return None."""
        return None


class Candidate:
    """Leads while it holds a Lease."""

    def __init__(
        self,
        api: LeaseApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        seconds: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._seconds = seconds
        self._clock = clock
        self._lease: _Object | None = None
        self._asked = False
        """Whether the lease was asked for: it may be ours without our having heard of it."""
        self._written = 0
        """The lease's resource version when this process wrote it last."""
        self._seen: _Object | None = None
        self._seen_at = 0.0
        self._renewed_at = -math.inf
        self._problem: str | None = "the lease was not read yet"

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while True:
            if await self.try_to_lead():
                logger.info("%s became the leader", self._identity)
                return
            await asyncio.sleep(self._seconds * RETRY)

    async def keep(self) -> None:
        """Renew the lease until it is lost. Raises LeaseLostError."""
        while True:
            await asyncio.sleep(min(self._seconds * _RENEW, max(0.0, self.seconds_left())))
            # A process that was paused must not even ask: its time is over.
            if (left := self.seconds_left()) <= 0:
                raise LeaseLostError(
                    f"the lease was not renewed for {self._seconds * _DEADLINE:g} s"
                )
            try:
                async with asyncio.timeout(min(left, self._seconds * ATTEMPT)):
                    await self._renew()
            except (errors.ApiError, TimeoutError) as error:
                logger.warning("could not renew the lease: %s", _reason(error))

    async def release(self) -> None:
        """Release the lease, so that a standby need not wait until it expires."""
        if not self._asked:
            return
        self._renewed_at = -math.inf  # from here on nothing is written
        try:
            async with asyncio.timeout(self._seconds * ATTEMPT):
                while (lease := await self._look()) and holder_of(lease) == self._identity:
                    # A renewal that was sent before may still come in between.
                    with suppress(errors.ConflictError):
                        await self._api.replace_lease(_released(lease))
                        return
        except (errors.ApiError, TimeoutError) as error:
            logger.warning("could not release the lease; it will expire: %s", _reason(error))

    def seconds_left(self) -> float:
        """Return how long (s) this process may still write; 0 or less if it may not."""
        return self._renewed_at + self._seconds * _DEADLINE - self._clock()

    def problem(self) -> str | None:
        """Return why the lease can be neither read nor taken, None if it can."""
        return self._problem

    async def try_to_lead(self) -> bool:
        """Acquire the lease if it is free; tell whether this process leads."""
        try:
            async with asyncio.timeout(self._seconds * ATTEMPT):
                lease = await self._look()
                free = self._is_free(lease)
                if free:
                    await self._claim(lease)
        except (errors.ConflictError, errors.AlreadyExistsError):
            free = False  # another process was faster
        except (errors.ApiError, TimeoutError) as error:
            problem = f"cannot acquire the lease: {_reason(error)}"
            if problem != self._problem:
                logger.warning("%s", problem)
            self._problem = problem
            return False
        self._problem = None
        return free

    @property
    def holder(self) -> str:
        """Who held it when it was last seen, "" for nobody."""
        return _in_spec(self._seen)

    async def _look(self) -> _Object | None:
        lease: _Object | None
        try:
            lease = await self._api.get_lease(self._namespace, self._name)
        except errors.NotFoundError:
            lease = None
        # Of the whole object anybody's label would be a change, and look like a renewal.
        spec = _spec(lease)
        if spec != self._seen:
            if (holder := holder_of(lease)) and holder != self.holder:
                self._note_holder(holder)
            self._seen, self._seen_at = spec, self._clock()
        return lease

    def _note_holder(self, holder: str) -> None:
        logger.info("the leader is %s", one_line(holder))

    def _is_free(self, lease: _Object | None) -> bool:
        if holder_of(lease) in ("", self._identity):
            return True
        return self._unrenewed_for() >= self._lasts()

    def _is_lost(self, lease: _Object | None) -> bool:
        return holder_of(lease) not in ("", self._identity)

    def _unrenewed_for(self) -> float:
        return self._clock() - self._seen_at

    def _lasts(self) -> float:
        return float((self._seen or {}).get("leaseDurationSeconds") or self._seconds)

    async def _renew(self) -> None:
        newest = self._written
        try:
            await self._claim(self._lease)
        except (errors.ConflictError, errors.NotFoundError, errors.AlreadyExistsError):
            self._lease = await self._look()
            if self._is_lost(self._lease):
                holder = one_line(holder_of(self._lease))
                raise LeaseLostError(f"{holder} acquired the lease") from None
            if self._lease is not None and version_of(self._lease) < newest:
                raise LeaseLostError(_RESTORED) from None
            await self._claim(self._lease)
        if self._written < newest:
            raise LeaseLostError(_RESTORED)

    async def _claim(self, lease: _Object | None) -> None:
        """Write our name into the lease, if it still is the one that was seen."""
        began, self._asked = self._clock(), True
        if lease is None:
            metadata = {"namespace": self._namespace, "name": self._name}
            made = {"apiVersion": _API_VERSION, "kind": "Lease", "metadata": metadata}
            self._lease = await self._api.create_lease(self._held(made))
        else:
            self._lease = await self._api.replace_lease(self._held(lease))
        self._written = version_of(self._lease)
        self._renewed_at = began

    def _held(self, lease: _Object) -> _Object:
        now = _micro_time()
        spec = dict(_spec(lease))
        if holder_of(lease) != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._seconds,
            "renewTime": now,
        }
        return {**lease, "spec": spec}


def _released(lease: _Object) -> _Object:
    spec = {**_spec(lease), "renewTime": _micro_time()}
    del spec["holderIdentity"]
    return {**lease, "spec": spec}


def _spec(lease: _Object | None) -> _Object:
    return (lease or {}).get("spec") or {}


def holder_of(lease: _Object | None) -> str:
    """Return who holds a lease, "" for nobody."""
    return _in_spec(_spec(lease))


def _in_spec(spec: _Object | None) -> str:
    return str((spec or {}).get("holderIdentity") or "")


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _reason(error: Exception) -> str:
    return one_line(str(error)) or "timed out"
