"""Who leads, in virtual time: never two at once, whatever calls and processes do."""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tftraining_operator.controller.leader import Alone, Candidate, LeaseLostError
from tftraining_operator.reconcile import errors

from tests.unit.virtual_time import VirtualLoop, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SECONDS = 15
DEADLINE = 10
LOOK = 1
RENEW = 2


@dataclass
class Server:
    """Keeps one lease as the API server does."""

    lease: dict[str, Any] | None = None
    trouble: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Runs before each call: it may fail it, or hold it up."""
    calls: list[str] = field(default_factory=list)
    _version: int = 0

    async def get_lease(self, namespace: str, name: str) -> dict[str, Any]:
        assert (namespace, name) == ("here", "lease")
        await self._enter("get")
        if self.lease is None:
            raise errors.NotFoundError("no lease", status=404)
        return copy.deepcopy(self.lease)

    async def create_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        await self._enter("create")
        if self.lease is not None:
            raise errors.AlreadyExistsError("there is one", status=409)
        return self._store(body)

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        await self._enter("replace")
        if self.lease is None:
            raise errors.NotFoundError("no lease", status=404)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise errors.ConflictError("it has changed", status=409)
        return self._store(body)

    def edit(self, **spec: Any) -> None:
        """Write fields as another does; None takes one out."""
        assert self.lease is not None
        edited = {**self.lease["spec"], **spec}
        edited = {name: value for name, value in edited.items() if value is not None}
        self._store({**self.lease, "spec": edited})

    def restore(self, backup: dict[str, Any] | None) -> None:
        """Be as it was when the backup was made, when the count stood at 2."""
        self.lease, self._version = copy.deepcopy(backup), 2

    def label(self) -> None:
        """Touch the lease as anybody may, without a word about who leads."""
        assert self.lease is not None
        labels = {"touched": str(self._version)}
        self._store({**self.lease, "metadata": {**self.lease["metadata"], "labels": labels}})

    @property
    def holder(self) -> str | None:
        return self.lease["spec"].get("holderIdentity") if self.lease else None

    async def _enter(self, verb: str) -> None:
        self.calls.append(verb)
        if self.trouble is not None:
            await self.trouble()

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return copy.deepcopy(self.lease)


def candidate(server: Server, loop: VirtualLoop, identity: str = "me") -> Candidate:
    return Candidate(
        server,
        namespace="here",
        name="lease",
        identity=identity,
        seconds=SECONDS,
        clock=loop.time,
    )


async def leads(server: Server, loop: VirtualLoop, identity: str = "me") -> Candidate:
    found = candidate(server, loop, identity)
    await found.acquire()
    return found


async def refuse() -> None:
    raise errors.TransientError("the server is away")


async def hang() -> None:
    await asyncio.Event().wait()


def test_where_nobody_leads_it_leads_at_once() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        assert loop.time() == 0
        assert found.seconds_left() == DEADLINE
        assert found.problem() is None
        assert server.lease is not None
        assert server.lease["metadata"]["namespace"] == "here"
        spec = server.lease["spec"]
        assert spec["acquireTime"] == spec["renewTime"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("me", SECONDS)
        assert spec["leaseTransitions"] == 0

    in_virtual_time(scene)


def test_while_another_renews_it_stands_by() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        other = await leads(server, loop, "other")
        keeping = asyncio.create_task(other.keep())
        mine = candidate(server, loop)
        acquiring = asyncio.create_task(mine.acquire())
        await asyncio.sleep(100 * SECONDS)
        assert not acquiring.done()
        assert mine.seconds_left() < 0
        assert mine.problem() is None
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 0
        acquiring.cancel()
        keeping.cancel()

    in_virtual_time(scene)


def test_a_holder_that_is_silent_is_followed_when_its_lease_is_over() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        await leads(server, loop, "other")
        await leads(server, loop)
        assert SECONDS <= loop.time() <= SECONDS + LOOK
        assert server.holder == "me"
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 1

    in_virtual_time(scene)


def test_the_holders_own_duration_counts() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        await leads(server, loop, "other")
        server.edit(leaseDurationSeconds=40)
        await leads(server, loop)
        assert 40 <= loop.time() <= 40 + LOOK

    in_virtual_time(scene)


def test_a_strangers_label_prolongs_nothing() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        await leads(server, loop, "other")
        acquiring = asyncio.create_task(leads(server, loop))
        for _ in range(SECONDS):
            await asyncio.sleep(1)
            server.label()
        await acquiring
        assert loop.time() <= SECONDS + LOOK

    in_virtual_time(scene)


def test_a_lease_that_is_given_away_is_taken_at_the_next_look() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        other = await leads(server, loop, "other")
        acquiring = asyncio.create_task(leads(server, loop))
        await asyncio.sleep(3.5)
        await other.release()
        assert server.holder is None
        assert other.seconds_left() < 0
        await acquiring
        assert loop.time() <= 3.5 + LOOK

    in_virtual_time(scene)


def test_its_own_lease_of_an_earlier_life_is_taken_back_at_once() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        await leads(server, loop)
        await leads(server, loop)
        assert loop.time() == 0

    in_virtual_time(scene)


def test_who_stands_by_gives_nothing_away() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        await leads(server, loop, "other")
        await candidate(server, loop).release()
        assert server.holder == "other"

    in_virtual_time(scene)


def test_a_lease_that_was_taken_without_hearing_of_it_is_released() -> None:
    """As by a process that is asked to end while it acquires the lease."""

    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        answer = server.create_lease

        async def slow(body: dict[str, Any]) -> dict[str, Any]:
            found = await answer(body)
            await asyncio.sleep(1)
            return found

        server.create_lease = slow  # type: ignore[method-assign]
        found = candidate(server, loop)
        acquiring = asyncio.ensure_future(found.acquire())
        await asyncio.sleep(0.5)
        acquiring.cancel()
        assert server.holder is not None
        await found.release()
        assert server.holder is None

    in_virtual_time(scene)


def test_a_renewal_that_arrives_late_does_not_keep_the_lease_from_being_released() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        calls = itertools.count()

        async def renewed() -> None:
            if next(calls) == 1:  # between looking and releasing
                server.edit(renewTime="2026-01-02T03:04:05.000000Z")

        server.trouble = renewed
        await found.release()
        assert server.holder is None

    in_virtual_time(scene)


def test_who_was_deposed_gives_nothing_away() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        server.edit(holderIdentity="other")
        await found.release()
        assert server.holder == "other"

    in_virtual_time(scene)


def test_a_release_that_fails_ends_all_the_same() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        server.trouble = hang
        await found.release()
        assert loop.time() <= SECONDS / 3

    in_virtual_time(scene)


def test_renewed_it_is_never_over() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        keeping = asyncio.create_task(found.keep())
        least = DEADLINE
        for _ in range(1000):
            await asyncio.sleep(0.5)
            least = min(least, found.seconds_left())
        assert least >= DEADLINE - RENEW
        assert set(server.calls[2:]) == {"replace"}  # one call a renewal
        keeping.cancel()

    in_virtual_time(scene)


@pytest.mark.parametrize("trouble", [refuse, hang])
def test_a_server_that_is_away_ends_the_lead_at_the_deadline(
    trouble: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        server.trouble = trouble
        with pytest.raises(LeaseLostError, match="not renewed for 10 s"):
            await found.keep()
        assert loop.time() == pytest.approx(DEADLINE)
        assert found.seconds_left() <= 0

    in_virtual_time(scene)


def test_a_server_that_is_away_for_a_moment_ends_nothing() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        keeping = asyncio.create_task(found.keep())
        server.trouble = refuse
        await asyncio.sleep(DEADLINE - RENEW - 1)
        server.trouble = None
        await asyncio.sleep(100)
        assert not keeping.done()
        keeping.cancel()

    in_virtual_time(scene)


def test_the_lead_ends_at_the_next_renewal_when_another_has_it() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        server.edit(holderIdentity="other")
        with pytest.raises(LeaseLostError, match="other acquired the lease"):
            await found.keep()
        assert loop.time() == pytest.approx(RENEW)
        assert server.holder == "other"

    in_virtual_time(scene)


@pytest.mark.parametrize("had_a_lease", [True, False])
def test_the_lead_ends_when_etcd_is_restored(*, had_a_lease: bool) -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        backup = copy.deepcopy(server.lease) if had_a_lease else None
        keeping = asyncio.create_task(found.keep())
        await asyncio.sleep(20)
        server.restore(backup)
        with pytest.raises(LeaseLostError, match="as after a restore of etcd"):
            await keeping
        assert loop.time() == pytest.approx(20 + RENEW, abs=RENEW)

    in_virtual_time(scene)


def test_a_process_that_was_paused_does_not_even_ask() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        keeping = asyncio.create_task(found.keep())
        await asyncio.sleep(5)
        calls = len(server.calls)
        loop.jump(SECONDS)
        assert found.seconds_left() <= 0
        with pytest.raises(LeaseLostError):
            await keeping
        assert len(server.calls) == calls

    in_virtual_time(scene)


@pytest.mark.parametrize(
    "meddle",
    [
        pytest.param(lambda server: setattr(server, "lease", None), id="deleted"),
        pytest.param(lambda server: server.edit(preferredHolder="x"), id="edited"),
        pytest.param(lambda server: server.edit(holderIdentity=None), id="cleared"),
    ],
)
def test_a_lease_that_nobody_has_taken_is_kept(meddle: Callable[[Server], None]) -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server()
        found = await leads(server, loop)
        keeping = asyncio.create_task(found.keep())
        meddle(server)
        await asyncio.sleep(100)
        assert not keeping.done()
        assert server.holder == "me"
        keeping.cancel()

    in_virtual_time(scene)


def test_while_the_lease_cannot_be_read_it_says_so() -> None:
    async def scene(loop: VirtualLoop) -> None:
        server = Server(trouble=refuse)
        found = candidate(server, loop)
        acquiring = asyncio.create_task(found.acquire())
        await asyncio.sleep(30)
        assert found.problem() == "cannot acquire the lease: the server is away"
        server.trouble = None
        await acquiring
        assert found.problem() is None

    in_virtual_time(scene)


def test_alone_it_leads_for_ever() -> None:
    async def scene(loop: VirtualLoop) -> None:
        alone = Alone()
        await alone.acquire()
        keeping = asyncio.create_task(alone.keep())
        await asyncio.sleep(10**6)
        assert not keeping.done()
        assert alone.seconds_left() > loop.time()
        assert alone.problem() is None
        await alone.release()
        keeping.cancel()

    in_virtual_time(scene)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_never_do_two_lead_whatever_happens_to_calls_and_processes(seed: int) -> None:
    """Three processes over slow, failing and late calls; each may crash or end well."""
    dice = random.Random(seed)  # noqa: S311 - not a secret
    terms: list[str] = []

    async def scene(loop: VirtualLoop) -> None:
        server = _Unreliable(dice)
        living: dict[str, Candidate] = {}

        async def live(name: str) -> None:
            for life in range(1000):
                # Half of the processes come back as themselves, as a container in its pod does.
                identity = name if dice.random() < 0.5 else f"{name}-{life}"
                found = living[name] = candidate(server, loop, identity)
                try:
                    async with asyncio.timeout(dice.uniform(1, 120)):
                        await found.acquire()
                        terms.append(identity)
                        await found.keep()
                except TimeoutError:
                    if dice.random() < 0.5:
                        await found.release()
                except LeaseLostError:
                    pass
                del living[name]  # the process has ended
                await asyncio.sleep(dice.uniform(0, 5))

        tasks = [asyncio.create_task(live(name)) for name in "abc"]
        while loop.time() < 600:
            await asyncio.sleep(0.2)
            assert sum(each.seconds_left() > 0 for each in living.values()) <= 1
        for task in (*tasks, *server.late):
            task.cancel()
        await asyncio.gather(*tasks, *server.late, return_exceptions=True)

    in_virtual_time(scene)
    assert len(terms) > 3  # somebody leads, again and again


class _Unreliable(Server):
    """Calls take up to seconds, fail before or after their effect, or take effect too late."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.late: list[asyncio.Task[dict[str, Any]]] = []
        self._dice = dice
        self.trouble = self._delay

    async def create_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._carry_out(super().create_lease(body))

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._carry_out(super().replace_lease(body))

    async def _carry_out(self, call: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        task = asyncio.create_task(call)
        self.late.append(task)
        # Who gives up waiting does not undo what was sent.
        answer = await asyncio.shield(task)
        await self._delay()
        return answer

    async def _delay(self) -> None:
        await asyncio.sleep(self._dice.choice([0, 0.01, 0.01, 0.1, 1, 8]))
        if self._dice.random() < 0.1:
            raise errors.TransientError("lost on the way")
