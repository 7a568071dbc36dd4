"""Several processes that share the jobs, in virtual time: each shard has one at work, or none."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.controller.leader import LeaseLostError
from tftraining_operator.controller.shard_lease import ShardLease
from tftraining_operator.controller.sharding import shard_of
from tftraining_operator.controller.shards import Shards
from tftraining_operator.reconcile import errors

from tests.unit.lease_server import LeaseServer
from tests.unit.virtual_time import VirtualLoop, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 15
SETTLED = 4 * SECONDS


@dataclass
class Calls:
    """A process's way to the server, which may be cut."""

    server: LeaseServer
    identity: str

    async def get_lease(self, namespace: str, name: str) -> dict[str, Any]:
        await self._reach()
        return await self.server.get_lease(namespace, name)

    async def create_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        await self._reach()
        self._permit()
        return await self.server.create_lease(body)

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        await self._reach()
        self._permit()
        return await self.server.replace_lease(body)

    def _permit(self) -> None:
        """Count a write, and refuse it to who may only read."""
        self.server.writes[self.identity] += 1
        if self.identity in self.server.readers:
            raise errors.ApiError("leases: forbidden", status=403)

    async def _reach(self) -> None:
        await asyncio.sleep(0.01)
        if self.identity in self.server.away:
            await asyncio.Event().wait()


class Process:
    """One operator process; its passes take a while to end."""

    def __init__(self, place: Place, identity: str) -> None:
        self.place = place
        self.identity = identity
        self.works_on: set[int] = set()
        calls = Calls(place.server, identity)
        leases = [
            ShardLease(
                calls,
                namespace="here",
                name=f"lease-{shard}",
                identity=identity,
                seconds=SECONDS,
                clock=place.loop.time,
            )
            for shard in range(place.shards)
        ]
        self.shards = Shards(leases, identity=identity, seconds=SECONDS)
        self.shards.serve(self)
        self.task = asyncio.create_task(self._run())

    async def gain(self, shard: int) -> None:
        await asyncio.sleep(1.5)  # it lists what exists
        others = [each for each in self.place.processes if each.writes(shard)]
        assert others == [], "a shard of two"
        self.works_on.add(shard)

    async def lose(self, shard: int) -> None:
        await asyncio.sleep(2.5)  # passes end
        self.works_on.remove(shard)

    def writes(self, shard: int) -> bool:
        """Tell whether it may write objects of a shard's jobs."""
        return shard in self.works_on and self.shards.seconds_left() > 0

    async def _run(self) -> None:
        await self.shards.acquire()
        try:
            await self.shards.keep()
        except LeaseLostError:
            self.works_on.clear()  # the process exits

    async def stop(self) -> None:
        """End it well."""
        self.kill()
        await self.shards.release()

    def kill(self) -> None:
        """End it at once."""
        failed = self.task.done() and not self.task.cancelled() and self.task.exception()
        assert not failed, f"{self.identity}: {failed}"
        self.task.cancel()
        self.works_on.clear()
        self.place.processes.remove(self)


@dataclass
class Place:
    """Processes that know each other by leases only."""

    loop: VirtualLoop
    shards: int
    server: LeaseServer = field(default_factory=LeaseServer)
    processes: list[Process] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=lambda: iter(range(1000)))

    def start(self, identity: str = "") -> Process:
        found = Process(self, identity or f"operator-{next(self._names)}")
        self.processes.append(found)
        return found

    async def settle(self) -> None:
        await asyncio.sleep(SETTLED)

    def shares(self) -> list[int]:
        """Return how many shards each process works on; every shard must have one."""
        owners = Counter(shard for each in self.processes for shard in each.works_on)
        assert owners == dict.fromkeys(range(self.shards), 1)
        for each in self.processes:
            assert {n for n in range(self.shards) if each.shards.holds(n)} == each.works_on
        return sorted(len(each.works_on) for each in self.processes)

    def end(self) -> None:
        for each in list(self.processes):
            each.kill()


def test_the_first_process_works_on_all_shards_and_shares_them_with_who_comes_later() -> None:
    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=3)
        place.start()
        await place.settle()
        assert place.shares() == [3]
        place.start()
        await place.settle()
        assert place.shares() == [1, 2]
        place.start()
        await place.settle()
        assert place.shares() == [1, 1, 1]
        place.start()
        await place.settle()
        assert place.shares() == [0, 1, 1, 1]
        place.end()

    in_virtual_time(scene)


def test_processes_that_start_together_have_one_each_at_once() -> None:
    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=3)
        for _ in range(3):
            place.start()
        await asyncio.sleep(5)
        assert place.shares() == [1, 1, 1]
        place.end()

    in_virtual_time(scene)


def test_processes_that_prefer_the_same_shard_do_not_wait_for_another_one() -> None:
    alike = [name for name in map("operator-{}".format, range(99)) if shard_of("", name, 3) == 1]

    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=3)
        for name in alike[:3]:
            place.start(name)
        await asyncio.sleep(1.9)  # within the second after which who has none looks again
        assert place.shares() == [1, 1, 1]
        place.end()

    in_virtual_time(scene)


def test_who_may_not_write_leases_says_so_and_asks_for_one_at_a_time() -> None:
    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=3)
        place.server.readers.add("reader")
        reader = place.start("reader")
        for _ in range(20):
            await asyncio.sleep(SECONDS / 15)
            assert reader.shards.problem() == "cannot acquire the lease: leases: forbidden"
        assert place.server.writes["reader"] <= 20
        place.server.readers.clear()
        await place.settle()
        assert place.shares() == [3]
        assert reader.shards.problem() is None
        place.end()

    in_virtual_time(scene)


def test_the_shard_of_a_killed_process_goes_to_another_when_its_lease_is_over() -> None:
    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=3)
        killed = [place.start() for _ in range(3)][1]
        await place.settle()
        (shard,) = killed.works_on
        killed.kill()
        await asyncio.sleep(SECONDS - 3)
        assert not any(each.works_on & {shard} for each in place.processes)
        await asyncio.sleep(3 + SECONDS / 3 + 5)
        assert place.shares() == [1, 2]
        place.end()

    in_virtual_time(scene)


def test_who_leads_reads_the_leases_of_others_seldom_while_all_are_held() -> None:
    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=3)
        for _ in range(3):
            place.start()
        await place.settle()
        before = place.server.reads
        await asyncio.sleep(4 * SECONDS)
        assert place.server.reads - before == pytest.approx(3 * 2 * 4 * 5, abs=6)
        place.end()

    in_virtual_time(scene)


def test_the_shard_of_a_process_that_ends_well_goes_first_to_who_has_none() -> None:
    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=2)
        ending = place.start()
        place.start()
        await place.settle()
        standby = place.start()
        await place.settle()
        assert standby.works_on == set()
        await ending.stop()
        await asyncio.sleep(4)
        assert len(standby.works_on) == 1
        assert place.shares() == [1, 1]
        place.end()

    in_virtual_time(scene)


def test_a_process_that_cannot_renew_one_lease_loses_all_and_writes_nothing_more() -> None:
    async def scene(loop: VirtualLoop) -> None:
        place = Place(loop, shards=2)
        lost = place.start()
        await place.settle()
        assert place.shares() == [2]
        place.server.away.add(lost.identity)
        await asyncio.sleep(SECONDS)
        assert lost.task.done()
        assert lost.works_on == set()
        assert lost.shards.seconds_left() < 0
        place.processes.remove(lost)
        place.start()
        await place.settle()
        assert place.shares() == [2]
        place.end()

    in_virtual_time(scene)


@pytest.mark.parametrize("seed", range(10))
def test_no_shard_ever_has_two_whatever_becomes_of_processes(seed: int) -> None:
    """Checked whenever a process begins with a shard; in the end each has as many as the others."""

    async def scene(loop: VirtualLoop) -> None:
        chance = random.Random(seed)  # noqa: S311 - not a secret
        place = Place(loop, shards=chance.randint(2, 5))
        for _ in range(15):
            if len(place.processes) > 1 and chance.random() < 0.5:
                each = chance.choice(place.processes)
                if chance.random() < 0.5:
                    each.kill()
                else:
                    await each.stop()
            else:
                place.start()
            await asyncio.sleep(chance.choice((0.0, 0.5, 2.0, 10.0, 40.0)))
        await place.settle()
        await place.settle()
        shares = place.shares()
        assert shares[-1] - shares[0] <= 1
        place.end()

    in_virtual_time(scene)
