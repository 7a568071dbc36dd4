"""In which namespaces this installation works on jobs: those that no other one has claimed.

Each namespace with jobs, or named in the settings, has a lease (claim); without it no pass runs in
the namespace. A namespace that another installation has is watched on, and taken when that one is
gone. Used by namespaces.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tftraining_operator.controller.claim import LEASE, Claim
from tftraining_operator.controller.leader import RETRY, LeaseApi, LeaseLostError
from tftraining_operator.core.text import one_line
from tftraining_operator.reconcile import errors

logger = logging.getLogger(__name__)

LEASES = 4
"""Durations of the leader's lease for which a claim lasts: a standby takes over within it."""

_RENEW = 1 / 3
_AT_ONCE = 8
"""Claims that are renewed at once: there may be as many as namespaces."""


class State(StrEnum):
    """Who works on the jobs of a namespace, as a metric tells it."""

    HELD = "held"
    OTHER = "other_installation"
    UNGUARDED = "unguarded"
    """This installation, without a lease: whether another one does too is not known."""
    FORBIDDEN = "forbidden"
    """Nobody of this installation, which may not read it; see access."""


class Worker(Protocol):
    """Who works on the jobs of namespaces; see controller.runtime."""

    async def take_over(self) -> None:
        """Learn what exists now, in namespaces that another installation had."""

    async def leave(self, namespace: str) -> None:
        """Wait for the passes in a namespace, of which none begins, and forget its jobs."""

    def look_into(self, namespace: str) -> None:
        """Ask for passes over a namespace's jobs."""

    async def may_read(self, namespace: str) -> bool:
        """Ask whether a namespace may be read, and not only its lease may not. Raises ApiError."""


@dataclass(slots=True)
class _Namespace:
    claim: Claim
    claimed: bool = False
    """Whether this installation has it."""
    held: bool = False
    """Whether passes run: it is claimed, and known what another installation did there last."""
    unguarded: bool = False
    """Whether it is held without a lease, as the permission for that is missing."""
    asked_in_vain: bool = False
    """Whether a pass was not begun because the lease had ended, though it may be renewed again."""
    tried_at: float | None = None
    """When the lease was read or written last."""
    taken_by: str = ""
    """The other installation that has it."""
    leaving: asyncio.Task[None] | None = None
    """Waits for the passes in it to end, which may take long."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_left(self) -> bool:
        """Whether passes of before still run."""
        return self.leaving is not None and not self.leaving.done()


class Claims:
    """The namespaces of one installation: `named` ones, or all that have jobs.

    If `shared` with other processes of the installation, they may have jobs in a namespace in which
    this one has none.
    """

    def __init__(
        self,
        api: LeaseApi,
        worker: Worker,
        *,
        installation: str,
        seconds: int,
        named: Collection[str],
        shared: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._worker = worker
        self._installation = installation
        self._seconds = seconds * LEASES
        self._named = frozenset(named)
        self._shared = shared
        self._clock = clock
        self._known = {name: self._namespace(name) for name in self._named}
        self._problem = ""
        self._tasks: asyncio.TaskGroup | None = None
        self._taking_over: asyncio.Task[None] | None = None

    async def has(self, namespace: str) -> bool:
        """Tell whether passes may run in a namespace; the first time, after trying to take it.

        Raises errors.ApiError.
        """
        while (found := self._find(namespace)).tried_at is None:
            async with found.lock:
                # It may have been tried meanwhile, or let go.
                if found.tried_at is None and self._known.get(namespace) is found:
                    await self._try(found)
        may = found.held and self.seconds_left(namespace) > 0
        found.asked_in_vain |= found.held and not may
        return may

    def holds(self, namespace: str) -> bool:
        """Tell whether the jobs of a namespace are worked on here, as far as is known."""
        return namespace in self._known and self._known[namespace].held

    def seconds_left(self, namespace: str) -> float:
        """Return how long (s) passes may run in a namespace; 0 or less if they may not."""
        found = self._known.get(namespace)
        if found is None:
            return 0.0
        return math.inf if found.unguarded else found.claim.seconds_left()

    def count(self, state: State) -> int:
        """Return how many namespaces are in a state; those with no jobs are in none."""
        return sum(_state(found) is state for found in self._known.values())

    def problem(self) -> str | None:
        """Return which of the named namespaces another installation has, None if none."""
        if any(self._known[name].tried_at is None for name in self._named):
            return "the leases of the namespaces were not read yet"
        named = (self._known[name] for name in sorted(self._named))
        reasons = (_others_work(each) for each in named if each.taken_by)
        return "; ".join(reasons) or None

    async def keep(self, with_jobs: Callable[[], Collection[str]]) -> None:
        """Renew and take claims until cancelled; `with_jobs` are the namespaces that have jobs."""
        at_once = asyncio.Semaphore(_AT_ONCE)
        needed = self._named

        async def look_after(found: _Namespace) -> str:
            if found.is_left:
                return ""
            async with at_once, found.lock:
                try:
                    # Asked anew: it may have got a job while it waited for its turn.
                    if found.claim.namespace in needed or found.claim.namespace in with_jobs():
                        await self._keep(found)
                    else:
                        await self._drop(found)
                except errors.ApiError as error:
                    return one_line(error.message)
            return ""

        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            while True:
                needed = self._named | set(with_jobs())
                problems = await asyncio.gather(*map(look_after, list(self._known.values())))
                self._note(next(filter(None, problems), ""))
                if self._taking_over is None or self._taking_over.done():
                    new = [each for each in self._known.values() if each.claimed and not each.held]
                    if new:
                        # Beside the renewals, as it may take long.
                        self._taking_over = tasks.create_task(self._take_over(new))
                await asyncio.sleep(self._seconds * RETRY)

    def _find(self, name: str) -> _Namespace:
        if name not in self._known:
            self._known[name] = self._namespace(name)
        return self._known[name]

    def _namespace(self, name: str) -> _Namespace:
        return _Namespace(
            Claim(
                self._api,
                namespace=name,
                installation=self._installation,
                seconds=self._seconds,
                named=name in self._named,
                clock=self._clock,
            )
        )

    async def _keep(self, found: _Namespace) -> None:
        """Do what is due. Raises errors.ApiError."""
        due = found.tried_at is None or self._clock() >= found.tried_at + self._seconds * _RENEW
        if not found.claimed or found.unguarded:
            # Who names it waits for it; who watches all has other work.
            if due or (found.claim.named and not found.unguarded):
                await self._try(found)
        elif found.claim.wanted_by_another:
            self._give_up(found)
        elif due:
            await self._renew(found)

    async def _try(self, found: _Namespace) -> None:
        """Take a namespace if it can be had. Raises errors.ApiError."""
        is_first, other = found.tried_at is None, ""
        try:
            taken, unguarded = await found.claim.take(), False
            other = found.claim.taken_by
        except errors.NotFoundError:
            # There is no such namespace, and so no job in it.
            taken, unguarded, found.taken_by = False, False, ""
        except errors.ForbiddenError as error:
            taken = unguarded = await self._may_work(found, error)
            if not taken:
                found.taken_by = ""
        found.tried_at = self._clock()
        found.unguarded = unguarded
        if not taken:
            self._leave(found, other)
            return
        if not found.claimed:
            found.claimed = True
            if found.taken_by:
                logger.info("taking over the jobs of namespace %s", found.claim.namespace)
                found.taken_by = ""
            elif is_first:
                # Passes wait for the first answer: none was refused.
                found.held = True
            else:
                self._hold(found)

    async def _may_work(self, found: _Namespace, error: errors.ForbiddenError) -> bool:
        """Tell whether passes may run in a namespace whose lease is forbidden.

        Raises the error again where nobody forbids it, but a webhook does not answer.
        """
        if isinstance(error, errors.AdmissionUnavailableError):
            raise error
        may = await self._worker.may_read(found.claim.namespace)
        if may:
            _warn_of_rights(found, error)
        return may

    async def _take_over(self, taken: Sequence[_Namespace]) -> None:
        await self._worker.take_over()
        for found in taken:
            if found.claimed and not found.held:
                self._hold(found)

    def _hold(self, found: _Namespace) -> None:
        found.held = True
        self._worker.look_into(found.claim.namespace)

    async def _renew(self, found: _Namespace) -> None:
        try:
            await found.claim.renew()
        except LeaseLostError:
            self._leave(found, found.claim.taken_by)
            return
        except errors.ForbiddenError as error:
            # As without the right from the beginning: the jobs are not to stop for it.
            found.unguarded = await self._may_work(found, error)
            if not found.unguarded:
                self._leave(found, "")
                return
        found.tried_at = self._clock()
        if found.held and found.asked_in_vain:
            found.asked_in_vain = False
            self._worker.look_into(found.claim.namespace)

    def _give_up(self, found: _Namespace) -> None:
        """Hand a namespace over to who names it."""
        # Of what is shared others may still work there: the claim ends after the last of them.
        self._leave(found, found.claim.requested_by, release=not self._shared)

    def _leave(self, found: _Namespace, other: str, *, release: bool = False) -> None:
        """Leave a namespace to another installation, for which it is released if that waits."""
        if other not in ("", found.taken_by):
            found.taken_by = other
            level = logging.WARNING if found.claim.named else logging.INFO
            logger.log(level, "%s", _others_work(found))
        found.claimed = False
        was_held, found.held = found.held, False
        if (was_held or release) and self._tasks is not None:
            # Beside the renewals: the passes of one namespace must not cost all others theirs.
            found.leaving = self._tasks.create_task(self._end_passes(found, release=release))

    async def _end_passes(self, found: _Namespace, *, release: bool) -> None:
        await self._worker.leave(found.claim.namespace)
        if release:
            await found.claim.release()

    async def _drop(self, found: _Namespace) -> None:
        """Let go of a namespace that has no jobs any more, and keep nothing of it."""
        # What is shared ends by itself, unless somebody renews it.
        is_released = found.claimed and not found.unguarded and not self._shared
        # Before the release: the pass of a new job waits for it, and then tries anew.
        found.claimed, found.held, found.tried_at, found.taken_by = False, False, None, ""
        if is_released:
            await found.claim.release()
        del self._known[found.claim.namespace]

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            logger.warning("cannot renew or take the leases of namespaces: %s", problem)
        self._problem = problem


def _state(found: _Namespace) -> State | None:
    if found.taken_by:
        return State.OTHER
    if found.held:
        return State.UNGUARDED if found.unguarded else State.HELD
    return None


def _warn_of_rights(found: _Namespace, error: errors.ForbiddenError) -> None:
    if not found.unguarded:
        logger.warning(
            "cannot claim namespace %s, and work on its jobs as if no other operator did;"
            " the operator has no permission for its lease %s: upgrade its chart (%s)",
            found.claim.namespace,
            LEASE,
            one_line(error.message),
        )


def _others_work(found: _Namespace) -> str:
    text = f"{one_line(found.taken_by)} works on the jobs of namespace {found.claim.namespace}"
    if not found.claim.named:
        return f"{text}; they are left to it"
    return f"{text}, and this operator does not: name it in watchNamespaces of one of them"
