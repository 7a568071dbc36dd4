"""Installations that share a cluster, in virtual time: a namespace has one of them, or none."""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.controller.claim import LEASE, Claim
from tftraining_operator.controller.claims import LEASES, Claims, State
from tftraining_operator.reconcile import errors

from tests.unit.lease_server import LeaseServer
from tests.unit.virtual_time import VirtualLoop, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

LEADER = 15
LASTS = LEADER * LEASES
RENEWED = LASTS / 3


class Installation:
    """One operator with claims; its passes take a while to end."""

    def __init__(self, place: Place, name: str, *named: str, shared: bool = False) -> None:
        self.place = place
        self.without_jobs = False
        self.forbidden: set[str] = set()
        self.name = name
        self.calls = Calls(place.server)
        self.looked: list[str] = []
        self.listed = 0
        self.listing = 1.0
        self.leaving = 2.0
        self.claims = Claims(
            self.calls,
            self,
            installation=name,
            seconds=LEADER,
            named=named,
            shared=shared,
            clock=place.loop.time,
        )
        self.task = asyncio.create_task(self.claims.keep(self._with_jobs))

    def _with_jobs(self) -> set[str]:
        return set() if self.without_jobs else self.place.with_jobs

    async def has(self, namespace: str) -> bool:
        """Ask as a pass does, and check that no other's may run."""
        found = await self.claims.has(namespace)
        others = [each for each in self.place.installations if each.name != self.name]
        assert not (found and any(each.works_in(namespace) for each in others)), "two work"
        return found

    def works_in(self, namespace: str) -> bool:
        """Tell whether its passes may run, as far as it knows."""
        return self.claims.holds(namespace) and self.claims.seconds_left(namespace) > 0

    async def take_over(self) -> None:
        await asyncio.sleep(self.listing)
        self.listed += 1

    async def leave(self, namespace: str) -> None:
        assert not self.works_in(namespace), "no pass begins"
        await asyncio.sleep(self.leaving)

    def look_into(self, namespace: str) -> None:
        self.looked.append(namespace)

    async def may_read(self, namespace: str) -> bool:
        return namespace not in self.forbidden

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})
        self.place.installations.remove(self)


@dataclass
class Calls:
    """An installation's way to the server, which may be cut or lack a permission."""

    server: LeaseServer
    problem: errors.ApiError | None = None
    delay: float = 0.0
    sent: int = 0

    async def get_lease(self, namespace: str, name: str) -> dict[str, Any]:
        await self._reach()
        return await self.server.get_lease(namespace, name)

    async def create_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        await self._reach()
        return await self.server.create_lease(body)

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        await self._reach()
        return await self.server.replace_lease(body)

    async def _reach(self) -> None:
        self.sent += 1
        await asyncio.sleep(self.delay)
        if self.problem is not None:
            raise self.problem


@dataclass
class Place:
    """A cluster in which one namespace has jobs."""

    loop: VirtualLoop
    server: LeaseServer = field(default_factory=LeaseServer)
    with_jobs: set[str] = field(default_factory=lambda: {"red"})
    installations: list[Installation] = field(default_factory=list)

    def install(self, name: str, *named: str, shared: bool = False) -> Installation:
        found = Installation(self, name, *named, shared=shared)
        self.installations.append(found)
        return found

    def holder(self, namespace: str = "red") -> str:
        spec = self.server.leases[namespace, LEASE]["spec"]
        return str(spec.get("holderIdentity") or "")


def played(scene: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
    """Play a scene in virtual time."""

    async def run(loop: VirtualLoop) -> None:
        place = Place(loop)
        await scene(place)
        for each in list(place.installations):
            await each.kill()

    in_virtual_time(run)


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_processes_of_one_installation_claim_a_namespace_at_the_same_time(processes: int) -> None:
    async def scene(place: Place) -> None:
        shards = [place.install("all", shared=True) for _ in range(processes)]
        for each in shards:
            each.calls.delay = 0.1
        found = await asyncio.gather(*(each.claims.has("red") for each in shards))
        assert found == [True] * processes, "no shard leaves its jobs waiting"
        assert place.loop.time() <= 0.2 * processes + 0.5

    played(scene)


def test_a_shard_without_jobs_in_a_namespace_does_not_release_what_another_needs() -> None:
    async def scene(place: Place) -> None:
        one, two = (place.install("all", shared=True) for _ in range(2))
        assert await one.claims.has("red")
        assert await two.claims.has("red")
        one.without_jobs = True
        for _ in range(int(2 * LASTS)):
            await asyncio.sleep(1)
            assert place.holder() == "all"
            assert two.works_in("red")
        two.without_jobs = True
        await asyncio.sleep(2 * LASTS)
        assert not two.works_in("red")
        other = place.install("other")
        assert not await other.has("red"), "it may be held"
        await asyncio.sleep(2 * LASTS)
        assert await other.has("red"), "nobody renews it"

    played(scene)


def test_a_namespace_is_claimed_when_its_first_job_is_seen() -> None:
    async def scene(place: Place) -> None:
        all_of_them = place.install("all")
        await asyncio.sleep(LASTS)
        assert place.server.leases == {}, "nothing is known of its jobs"
        assert await all_of_them.has("red")
        assert (place.holder(), all_of_them.calls.sent) == ("all", 2)
        await asyncio.sleep(10 * LASTS)
        assert await all_of_them.has("red"), "it is renewed"
        assert all_of_them.calls.sent <= 2 + 10 * LASTS / RENEWED, "by one call each time"

    played(scene)


def test_passes_that_begin_together_ask_once() -> None:
    async def scene(place: Place) -> None:
        one = place.install("one")
        assert await asyncio.gather(*(one.has("red") for _ in range(20))) == [True] * 20
        assert one.calls.sent == 2

    played(scene)


def test_a_namespace_without_jobs_is_let_go() -> None:
    async def scene(place: Place) -> None:
        one = place.install("one")
        assert await one.has("red")
        place.with_jobs.clear()
        await asyncio.sleep(LASTS)
        assert place.holder() == ""
        sent = one.calls.sent
        await asyncio.sleep(10 * LASTS)
        assert one.calls.sent == sent
        place.with_jobs.add("red")
        assert await one.has("red")

    played(scene)


@pytest.mark.parametrize("shared", [False, True])
def test_of_namespaces_that_come_and_go_nothing_is_kept(shared: bool) -> None:  # noqa: FBT001
    async def scene(place: Place) -> None:
        one = place.install("one", "blue", shared=shared)
        for name in ("short-lived-1", "short-lived-2"):
            place.with_jobs = {name}
            assert await one.has(name)
            await asyncio.sleep(LASTS)
        place.with_jobs = set()
        await asyncio.sleep(LASTS)
        gc.collect()
        known = {each.namespace for each in gc.get_objects() if isinstance(each, Claim)}
        assert not known & {"short-lived-1", "short-lived-2"}
        assert one.works_in("blue")
        assert not one.works_in("short-lived-1")

    played(scene)


def test_a_job_that_comes_while_its_namespace_is_let_go_is_worked_on() -> None:
    async def scene(place: Place) -> None:
        one = place.install("one")
        assert await one.has("red")
        one.calls.delay = 1.0
        place.with_jobs = set()
        while one.works_in("red"):  # noqa: ASYNC110 - until it is being released
            await asyncio.sleep(0.5)
        assert place.holder() == "one"
        place.with_jobs = {"red"}
        assert await one.has("red"), "nobody would ask for another pass"
        await asyncio.sleep(10 * LASTS)
        assert one.works_in("red")
        assert place.holder() == "one"

    played(scene)


def test_a_namespace_that_gets_a_job_before_its_turn_is_not_let_go() -> None:
    async def scene(place: Place) -> None:
        one = place.install("one", *(f"named-{number}" for number in range(8)))
        assert await one.has("red")
        await asyncio.sleep(RENEWED - 2)
        sent, one.calls.delay, place.with_jobs = one.calls.sent, LASTS / 10, set()
        # As many as are renewed at once: the one without jobs waits for its turn.
        while one.calls.sent < sent + 8:
            assert one.works_in("red")
            await asyncio.sleep(0.1)
        place.with_jobs = {"red"}
        assert await one.has("red"), "a pass begins"
        for _ in range(2 * LASTS):
            assert one.works_in("red")
            assert place.holder() == "one"
            await asyncio.sleep(0.1)

    played(scene)


def test_the_next_leader_of_an_installation_has_its_namespaces_at_once() -> None:
    async def scene(place: Place) -> None:
        first = place.install("one", "red")
        assert await first.has("red")
        await first.kill()
        assert await place.install("one", "red").has("red")

    played(scene)


def test_of_two_that_name_a_namespace_the_first_keeps_it_and_the_second_says_who_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(place: Place) -> None:
        first, second = place.install("a/first", "red"), place.install("b/second", "red")
        assert await first.has("red")
        assert not await second.has("red")
        for _ in range(40):
            await asyncio.sleep(RENEWED / 4)
            assert await first.has("red")
            assert not await second.has("red")
        assert first.claims.problem() is None
        told = "a/first works on the jobs of namespace red, and this operator does not"
        assert str(second.claims.problem()).startswith(told)
        assert [r.levelno for r in caplog.records if told in r.getMessage()] == [logging.WARNING]

        await first.kill()
        await asyncio.sleep(LASTS / 2)
        assert not await second.has("red"), "it may come back"
        await asyncio.sleep(LASTS)
        assert await second.has("red")
        assert second.claims.problem() is None
        assert (second.looked, second.listed) == (["red"], 1)

    caplog.set_level(logging.INFO)
    played(scene)


def test_passes_that_waited_for_the_first_answer_are_not_asked_for_again() -> None:
    async def scene(place: Place) -> None:
        one = place.install("one")
        one.calls.delay = 1.0
        assert await asyncio.gather(one.has("red"), one.has("red")) == [True, True]
        assert one.looked == [], "thousands that are at rest would come before the one that is not"
        await asyncio.sleep(2 * LASTS)
        assert one.looked == []

    played(scene)


def test_who_watches_all_hands_over_to_who_names_the_namespace() -> None:
    async def scene(place: Place) -> None:
        general, other = place.install("general"), place.install("other")
        assert await general.has("red")
        assert not await other.has("red"), "of two that watch all the first keeps it"
        special = place.install("special", "red")
        for _ in range(int(LASTS)):
            await asyncio.sleep(1)
            for each in place.installations:
                await each.has("red")
        assert (place.holder(), special.listed) == ("special", 1)
        assert general.claims.problem() is None, "it has nothing to repair"

        await special.kill()
        await asyncio.sleep(2 * LASTS)
        assert [await each.has("red") for each in (general, other)].count(True) == 1

    played(scene)


@pytest.mark.parametrize("apart", [0.0, 3.0, 7.0, 11.0])
def test_shards_hand_over_when_the_last_of_them_has_left(apart: float) -> None:
    async def scene(place: Place) -> None:
        for _ in range(3):
            shard = place.install("general", shared=True)
            assert await shard.has("red")
            await asyncio.sleep(apart)
        special = place.install("special", "red")
        for _ in range(int(6 * LASTS)):
            await asyncio.sleep(0.5)
            for each in place.installations:
                await each.has("red")
        assert (place.holder(), await special.has("red")) == ("special", True)
        restarted = place.install("general", shared=True)
        assert not await restarted.has("red")

    played(scene)


def test_shards_take_back_what_nobody_takes() -> None:
    async def scene(place: Place) -> None:
        shards = [place.install("general", shared=True) for _ in range(3)]
        for shard in shards:
            assert await shard.has("red")
        special = place.install("special", "red")
        await asyncio.sleep(0.1)
        await special.kill()
        await asyncio.sleep(RENEWED + 10)
        assert not any(shard.works_in("red") for shard in shards)
        restarted = place.install("general", shared=True)
        assert not await restarted.has("red"), "it is for who asked"
        await asyncio.sleep(4 * LASTS)
        for _ in range(int(2 * LASTS)):
            await asyncio.sleep(1)
            assert [await each.has("red") for each in place.installations] == [True] * 4

    played(scene)


def test_a_shard_takes_nothing_back_that_another_gave_up() -> None:
    async def scene(place: Place) -> None:
        shard = place.install("general", shared=True)
        assert await shard.has("red")
        await asyncio.sleep(1)
        lease = place.server.leases["red", LEASE]
        del lease["spec"]["holderIdentity"]
        lease["metadata"] |= {"annotations": {"tftraining.dev/requested-by": "special"}}
        await place.server.replace_lease(lease)
        await asyncio.sleep(RENEWED + 10)
        assert place.holder() == ""
        assert not await shard.has("red")

    played(scene)


def test_many_namespaces_are_taken_over_by_one_listing_and_renewed_meanwhile() -> None:
    async def scene(place: Place) -> None:
        place.with_jobs = {f"team-{number}" for number in range(20)}
        first, second = place.install("first"), place.install("second")
        for namespace in place.with_jobs:
            assert await first.has(namespace)
            assert not await second.has(namespace)
        await first.kill()
        second.listing = 2 * LASTS
        await asyncio.sleep(2 * LASTS)
        assert (second.listed, second.looked) == (0, []), "what exists is not known yet"
        assert {place.holder(each) for each in place.with_jobs} == {"second"}
        await asyncio.sleep(2 * LASTS)
        for namespace in place.with_jobs:
            assert await second.has(namespace)
        assert second.listed == 1

    played(scene)


def test_a_namespace_that_is_lost_while_it_is_taken_over_is_not_worked_on() -> None:
    async def scene(place: Place) -> None:
        general, special = place.install("general"), place.install("special", "red")
        assert await special.has("red")
        assert not await general.has("red")
        await special.kill()
        general.listing = 4 * LASTS
        await asyncio.sleep(2 * LASTS)
        assert place.holder() == "general"
        again = place.install("special", "red")
        await asyncio.sleep(LASTS)
        assert place.holder() == "special"
        assert await again.has("red")
        await asyncio.sleep(4 * LASTS)
        assert not await general.has("red")
        assert general.looked == []

    played(scene)


def test_what_was_given_up_for_one_that_does_not_take_it_is_taken_back() -> None:
    async def scene(place: Place) -> None:
        general = place.install("general")
        assert await general.has("red")
        special = place.install("special", "red")
        await asyncio.sleep(0.1)
        await special.kill()
        await asyncio.sleep(RENEWED + 10)
        assert place.holder() == ""
        await asyncio.sleep(2 * LASTS)
        assert await general.has("red")
        await asyncio.sleep(2 * LASTS)
        assert await general.has("red"), "the request is forgotten"

    played(scene)


def test_a_namespace_whose_passes_take_long_to_end_costs_no_other_its_claim() -> None:
    async def scene(place: Place) -> None:
        place.with_jobs = {"red", "blue"}
        general = place.install("general")
        general.leaving = 2 * LASTS
        assert await general.has("red")
        assert await general.has("blue")
        lease = place.server.leases["red", LEASE]
        lease["spec"] |= {"holderIdentity": "somebody"}
        await place.server.replace_lease(lease)
        worked = []
        for _ in range(int(4 * LASTS)):
            await asyncio.sleep(1)
            assert general.works_in("blue")
            worked.append(general.works_in("red"))
        assert not any(worked[int(LASTS / 2) : int(2 * LASTS)]), "its passes of before run"
        assert worked[-1], "nobody renews it, and they have ended"

    played(scene)


def test_without_the_api_server_no_pass_begins_and_nobody_takes_over_afterwards() -> None:
    async def scene(place: Place) -> None:
        first, second = place.install("first", "red"), place.install("second", "red")
        assert await first.has("red")
        assert not await second.has("red")
        cut = errors.TransientError("connection refused")
        first.calls.problem = second.calls.problem = cut
        await asyncio.sleep(LASTS)
        assert not await first.has("red")
        await asyncio.sleep(5 * LASTS)
        first.calls.problem = second.calls.problem = None
        await asyncio.sleep(RENEWED)
        assert await first.has("red")
        assert first.looked == ["red"], "the passes that did not begin are made up for"
        assert not await second.has("red")

    played(scene)


def test_a_pass_that_was_asked_for_during_a_late_renewal_is_made_after_it() -> None:
    """With the renewal begun in time, and its answer too late, the lease lapses unseen."""

    async def scene(place: Place) -> None:
        ours = place.install("ours")
        assert await ours.has("red")
        ours.calls.problem = errors.TransientError("away")
        lapses = ours.claims.seconds_left("red")
        await asyncio.sleep(lapses - 5)
        ours.calls.problem, ours.calls.delay = None, 8.0
        await asyncio.sleep(7)
        assert not await ours.has("red")
        assert ours.looked == []
        await asyncio.sleep(8)
        assert await ours.has("red")
        assert ours.looked == ["red"]
        await asyncio.sleep(LASTS)
        assert ours.looked == ["red"]

    played(scene)


def test_who_cannot_renew_stops_before_another_may_begin() -> None:
    async def scene(place: Place) -> None:
        first, second = place.install("first", "red"), place.install("second", "red")
        assert await first.has("red")
        first.calls.problem = errors.TransientError("connection refused")
        for _ in range(int(2 * LASTS)):
            await asyncio.sleep(1)
            await first.has("red")
            await second.has("red")
        assert await second.has("red")
        first.calls.problem = None
        await asyncio.sleep(LASTS)
        assert not await first.has("red")
        assert "second works on" in str(first.claims.problem())

    played(scene)


def test_without_the_permission_all_jobs_are_worked_on_and_it_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(place: Place) -> None:
        one = place.install("one", "red")
        one.calls.problem = errors.ForbiddenError("cannot get leases", status=403)
        await asyncio.sleep(5 * LASTS)
        assert await one.has("red")
        assert one.claims.problem() is None
        (told,) = [r.getMessage() for r in caplog.records]
        assert "upgrade its chart (cannot get leases)" in told

        one.calls.problem = None
        await asyncio.sleep(LASTS)
        assert place.holder() == "one"
        assert one.looked == [], "no pass was refused"

    played(scene)


def test_a_webhook_that_does_not_answer_is_no_missing_permission(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = errors.AdmissionUnavailableError("failed calling webhook", status=500)

    async def scene(place: Place) -> None:
        one = place.install("one", "red")
        one.calls.problem = away
        with pytest.raises(errors.AdmissionUnavailableError):
            await one.has("red")
        one.calls.problem = None
        await asyncio.sleep(LASTS)
        assert await one.has("red")
        one.calls.problem = away
        await asyncio.sleep(2 * LASTS)
        assert not await one.has("red"), "another may have it by now"
        assert one.claims.count(State.UNGUARDED) == 0
        assert not any("upgrade its chart" in r.getMessage() for r in caplog.records)

    played(scene)


def test_a_permission_that_is_taken_away_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(place: Place) -> None:
        one = place.install("one")
        assert await one.has("red")
        one.calls.problem = errors.ForbiddenError("cannot update leases", status=403)
        for _ in range(int(5 * LASTS)):
            await asyncio.sleep(1)
            assert await one.has("red")
        (told,) = [r.getMessage() for r in caplog.records]
        assert "upgrade its chart (cannot update leases)" in told

        one.calls.problem = None
        await asyncio.sleep(LASTS)
        assert place.holder() == "one"

    played(scene)


def test_when_the_permission_comes_another_may_have_the_namespace() -> None:
    async def scene(place: Place) -> None:
        first = place.install("first", "red")
        assert await first.has("red")
        second = Installation(place, "second", "red")  # it works on the same jobs meanwhile
        second.calls.problem = errors.ForbiddenError("cannot get leases", status=403)
        assert await second.claims.has("red")
        place.installations.append(second)
        second.calls.problem = None
        await asyncio.sleep(LASTS)
        assert not await second.has("red")
        assert await first.has("red")

    played(scene)


def test_a_namespace_that_does_not_exist_is_no_problem() -> None:
    async def scene(place: Place) -> None:
        one = place.install("one", "red")
        assert one.claims.problem() == "the leases of the namespaces were not read yet"
        one.calls.problem = errors.NotFoundError("namespaces red not found", status=404)
        await asyncio.sleep(LASTS)
        assert one.claims.problem() is None
        one.calls.problem = None
        await asyncio.sleep(LASTS)
        assert await one.has("red")

    played(scene)


def test_a_first_lease_that_cannot_be_read_fails_the_pass() -> None:
    async def scene(place: Place) -> None:
        one = place.install("one")
        one.calls.problem = errors.TransientError("connection refused")
        with pytest.raises(errors.TransientError):
            await one.has("red")
        one.calls.problem = None
        assert await one.has("red")

    played(scene)


@pytest.mark.parametrize("before", [True, False])
def test_a_namespace_that_may_not_be_read_is_nobodys_until_it_may(
    caplog: pytest.LogCaptureFixture, *, before: bool
) -> None:
    async def scene(place: Place) -> None:
        one = place.install("one", "red")
        if before:
            assert await one.has("red")
        one.forbidden.add("red")
        one.calls.problem = errors.ForbiddenError("leases is forbidden", status=403)
        await asyncio.sleep(2 * RENEWED)
        assert not await one.has("red")
        assert [one.claims.count(state) for state in State] == [0, 0, 0, 0]
        assert one.claims.problem() is None, "it has other namespaces"
        assert caplog.records == [], "whoever would read it has warned"

        one.calls.problem = None
        one.forbidden.clear()
        await asyncio.sleep(LASTS)
        assert await one.has("red")
        assert one.looked == ["red"]
        assert one.claims.count(State.HELD) == 1

    caplog.set_level(logging.WARNING)
    played(scene)
