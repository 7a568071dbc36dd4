"""Which job is whose, and that leases end up evenly with whoever is alive."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tftraining_operator.controller.sharding import Moves, Seen, next_moves, shard_of
from tftraining_operator.core.naming import lease_name

PATIENCE = 5.0


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_jobs_are_spread_evenly_by_their_names(shards: int) -> None:
    counts = Counter(
        shard_of(f"team-{team}", f"job-{job}", shards) for team in range(20) for job in range(500)
    )
    assert sorted(counts) == list(range(shards))
    assert max(counts.values()) < 1.1 * 10_000 / shards


def test_without_shards_all_jobs_are_of_one_and_its_lease_keeps_its_name() -> None:
    assert {shard_of("team", f"job-{number}", 1) for number in range(100)} == {0}
    assert [lease_name("operator", shard) for shard in range(3)] == [
        "operator",
        "operator-1",
        "operator-2",
    ]


def test_a_job_stays_in_its_shard_from_one_process_to_the_next() -> None:
    """The number itself is part of what all processes must agree on, during an upgrade too."""
    names = ("mnist", "bert", "dlrm", "resnet")
    assert [shard_of("default", name, 3) for name in names] == [1, 2, 2, 2]


A, B, C = Seen("a"), Seen("b"), Seen("c")
FREE = Seen(free_for=0.0)
LONG_FREE = Seen(free_for=PATIENCE)


def asked(holder: str, by: str) -> Seen:
    return Seen(holder, requested_by=by)


@pytest.mark.parametrize(
    ("seen", "moves"),
    [
        pytest.param([A, B, C], Moves(), id="each has one: nothing to do"),
        pytest.param([FREE, B, C], Moves(claim=0), id="who has none claims a free one at once"),
        pytest.param([FREE, A, C], Moves(), id="who has one leaves a free one to others at first"),
        pytest.param([LONG_FREE, A, C], Moves(claim=0), id="and claims it later"),
        pytest.param(
            [LONG_FREE, A, A], Moves(), id="who has two leaves it to others for twice as long"
        ),
        pytest.param([B, B, C], Moves(request=1), id="who has none asks who has most"),
        pytest.param([B, asked("b", "a"), C], Moves(), id="and asks once"),
        pytest.param([B, asked("b", "c"), B], Moves(request=2), id="not for what others ask for"),
        pytest.param([A, B, B], Moves(), id="one fewer is not worth a move"),
        pytest.param([A, B, B, B], Moves(request=3), id="two fewer is"),
        pytest.param([FREE, B, B, A], Moves(), id="who could claim one soon asks for none"),
        pytest.param([A, asked("a", "b"), C], Moves(release=1), id="who has two more gives one"),
        pytest.param([A, asked("a", "c"), C], Moves(), id="who has one more gives none"),
        pytest.param([asked("a", "a"), A, C], Moves(), id="nobody gives to itself"),
        pytest.param(
            [asked("a", "b"), asked("a", "c"), A], Moves(release=0), id="one after the other"
        ),
        pytest.param(
            [Seen(free_for=0.0, requested_by="b"), FREE, FREE],
            Moves(claim=2),
            id="what was released for another is left to it while there is something else",
        ),
    ],
)
def test_what_a_does_next(seen: list[Seen], moves: Moves) -> None:
    assert next_moves(seen, "a", PATIENCE) == moves


@dataclass
class World:
    """Leases, and processes that look at them one after the other, each second."""

    shards: int
    alive: set[str] = field(default_factory=set)
    leases: list[Seen] = field(init=False)

    def __post_init__(self) -> None:
        self.leases = [Seen() for _ in range(self.shards)]

    def second(self, chance: random.Random) -> None:
        for me in chance.sample(sorted(self.alive), len(self.alive)):
            moves = next_moves(self.leases, me, PATIENCE)
            if moves.request is not None:
                asked_for = self.leases[moves.request]
                self.leases[moves.request] = Seen(asked_for.holder, requested_by=me)
            if moves.release is not None:
                assert self.leases[moves.release].holder == me
                requested_by = self.leases[moves.release].requested_by
                self.leases[moves.release] = Seen(requested_by=requested_by)
            if moves.claim is not None:
                assert not self.leases[moves.claim].holder
                self.leases[moves.claim] = Seen(me)
        self.leases = [
            lease if lease.holder else Seen("", lease.free_for + 1, lease.requested_by)
            for lease in self.leases
        ]

    def kill(self, name: str) -> None:
        self.alive.remove(name)
        self.leases = [
            Seen(requested_by=lease.requested_by) if lease.holder == name else lease
            for lease in self.leases
        ]

    @property
    def held(self) -> dict[str, int]:
        counts = Counter(lease.holder for lease in self.leases if lease.holder)
        return {name: counts[name] for name in self.alive}


@pytest.mark.parametrize("seed", range(30))
def test_whoever_comes_and_goes_the_shards_end_up_evenly_with_those_who_are_there(
    seed: int,
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    world = World(shards=chance.randint(1, 8))
    for number in range(12):
        if world.alive and chance.random() < 0.4:
            world.kill(chance.choice(sorted(world.alive)))
        else:
            world.alive.add(f"operator-{number}")
        for _ in range(chance.choice((0, 1, 3, 200))):
            world.second(chance)
    world.alive.add("operator-last")
    for _ in range(200):
        world.second(chance)
    assert sum(world.held.values()) == world.shards
    assert max(world.held.values()) - min(world.held.values()) <= 1
    before = list(world.leases)
    for _ in range(50):
        world.second(chance)
    assert [lease.holder for lease in world.leases] == [lease.holder for lease in before]
