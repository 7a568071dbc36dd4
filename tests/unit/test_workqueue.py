"""No key twice at a time, none forgotten, failures repeated ever later."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

import pytest
from tftraining_operator.reconcile import workqueue
from tftraining_operator.reconcile.errors import TransientError
from tftraining_operator.reconcile.workqueue import NEXT_ROUTINE, SOON, Routine, WorkQueue

from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.virtual_time import VirtualLoop


class Desk:
    """A queue at work; `handle` is what the test makes of a pass."""

    def __init__(
        self,
        workers: int = 2,
        clock: Callable[[], float] = lambda: 0.0,
        group: Callable[[str], str | None] = lambda _key: None,
    ) -> None:
        self.done: list[str] = []
        self.at_work: set[str] = set()
        self.answers: list[float | Exception | None] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.queue = WorkQueue(self.handle, workers=workers, clock=clock, group=group)

    async def handle(self, key: str) -> float | None:
        assert key not in self.at_work, "one worker a key"
        self.at_work.add(key)
        await self.gate.wait()
        await asyncio.sleep(0)
        self.at_work.discard(key)
        self.done.append(key)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.queue.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def passes(self, count: int) -> list[str]:
        async with asyncio.timeout(5):
            while len(self.done) < count:  # noqa: ASYNC110 - whoever ends last
                await asyncio.sleep(0.001)
        return self.done


async def quiet() -> None:
    """Long enough for anything that is due to happen."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_key_that_is_added_often_is_worked_on_once() -> None:
    async with Desk() as desk:
        for _ in range(5):
            desk.queue.add("a")
        assert desk.queue.depth() == 1
        await quiet()
        assert desk.done == ["a"]


async def test_keys_are_worked_on_side_by_side_up_to_the_number_of_workers() -> None:
    async with Desk(workers=2) as desk:
        desk.gate.clear()
        for key in "abc":
            desk.queue.add(key)
        await quiet()
        assert desk.at_work == {"a", "b"}
        assert desk.queue.depth() == 1
        desk.gate.set()
        assert sorted(await desk.passes(3)) == ["a", "b", "c"]


async def test_no_two_passes_begin_in_one_turn_of_the_event_loop() -> None:
    """What a pass over a large job does before its first call takes long."""
    turn, begun = 0, []

    async def handle(_key: str) -> None:
        begun.append(turn)

    queue = WorkQueue(handle, workers=8)
    for key in "abcd":
        queue.add(key)
    running = asyncio.create_task(queue.run())
    for turn in range(20):
        await asyncio.sleep(0)
        if turn == 10:
            for key in "efgh":
                queue.add(key)
    running.cancel()
    assert len(begun) == len(set(begun)) == 8


async def test_a_key_that_is_added_while_in_work_is_worked_on_again_after_it() -> None:
    async with Desk(workers=2) as desk:
        desk.gate.clear()
        desk.queue.add("a")
        await quiet()
        desk.queue.add("a")
        desk.queue.add("a")
        await quiet()
        assert desk.at_work == {"a"}
        desk.gate.set()
        assert await desk.passes(2) == ["a", "a"]
        await quiet()
        assert desk.done == ["a", "a"]


async def test_a_pass_says_when_to_repeat_it() -> None:
    async with Desk() as desk:
        desk.answers = [0.1, None]
        desk.queue.add("a")
        await desk.passes(1)
        await quiet()
        assert desk.done == ["a"]
        assert await desk.passes(2) == ["a", "a"]


async def test_the_last_time_that_is_asked_for_holds() -> None:
    async with Desk() as desk:
        desk.queue.add_after("a", 0.01)
        desk.queue.add_after("a", 60)
        await asyncio.sleep(0.03)
        assert desk.done == []
        desk.queue.add_after("a", 0)
        assert await desk.passes(1) == ["a"]


async def test_a_pass_supersedes_the_time_asked_for_before() -> None:
    async with Desk() as desk:
        desk.queue.add_after("a", 0.1)
        desk.queue.add("a")
        await desk.passes(1)
        await asyncio.sleep(0.12)
        assert desk.done == ["a"]


def delays(caplog: pytest.LogCaptureFixture) -> list[float]:
    return [float(r.args[1]) for r in caplog.records if isinstance(r.args, tuple)]  # type: ignore[arg-type]


async def test_failures_are_repeated_ever_later_and_a_success_forgives(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workqueue, "FIRST_BACKOFF", 0.002)
    monkeypatch.setattr(workqueue, "LONGEST_BACKOFF", 0.008)
    async with Desk() as desk:
        desk.answers = [TransientError("busy") for _ in range(5)]
        desk.queue.add("a")
        await desk.passes(6)
        desk.answers = [TransientError("busy")]
        desk.queue.add("a")
        await desk.passes(8)
    bases = [0.002, 0.004, 0.008, 0.008, 0.008, 0.002]
    found = delays(caplog)
    assert len(found) == len(bases)
    for delay, base in zip(found, bases, strict=True):
        assert 0.75 * base <= delay <= 1.25 * base


async def test_a_bug_in_one_pass_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with Desk(workers=1) as desk:
        desk.answers = [KeyError("spec")]
        desk.queue.add("a")
        desk.queue.add("b")
        assert sorted(await desk.passes(3)) == ["a", "a", "b"]
    (message,) = caplog.messages
    assert message.startswith("a: pass failed, retrying in 0.1 s: KeyError: 'spec'\n")
    assert "in handle\n    raise answer" in message, "with its traceback"


async def test_the_text_of_an_error_forges_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Desk() as desk:
        desk.answers = [TransientError("busy\nERROR \x1b[2Kforged"), ValueError("x\nforged" * 99)]
        desk.queue.add("a")
        desk.queue.add("b")
        await desk.passes(2)
        await quiet()
    assert not any(line.startswith(("ERROR", "forged")) for line in caplog.text.splitlines())
    assert "\x1b" not in caplog.text
    assert all(len(line) < 400 for message in caplog.messages for line in message.splitlines())


async def test_a_key_that_always_asks_for_another_pass_at_once_starves_no_other() -> None:
    async with Desk(workers=1) as desk:
        desk.answers = [0.0] * 1000
        desk.queue.add("greedy")
        await desk.passes(3)
        desk.queue.add("b")
        desk.queue.add("c")
        await quiet()
        assert {"b", "c"} <= set(desk.done)


async def test_passes_that_always_ask_for_another_at_once_are_slowed_down(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workqueue, "FIRST_BACKOFF", 0.05)
    monkeypatch.setattr(workqueue, "LONGEST_DELAY", 0.1)
    async with Desk() as desk:
        desk.answers = [0.0] * 1000
        desk.queue.add("a")
        await asyncio.sleep(0.5)
        assert len(desk.done) <= 12
        assert caplog.messages == ["a: 6 passes in a row asked for another at once"]
        desk.answers = [60.0]  # it comes to rest, and may ask again
        await desk.passes(len(desk.done) + 1)
        desk.answers = [0.0, 0.0, 0.0, 60.0]
        began, before = asyncio.get_running_loop().time(), len(desk.done)
        desk.queue.add("a")
        await desk.passes(before + 4)
        assert asyncio.get_running_loop().time() - began < 0.05


async def test_what_the_server_asks_to_wait_is_waited(caplog: pytest.LogCaptureFixture) -> None:
    async with Desk() as desk:
        desk.answers = [TransientError("429", retry_after=30.0)]
        desk.queue.add("a")
        await desk.passes(1)
        await quiet()
    assert delays(caplog) == [30.0]
    assert caplog.messages == ["a: pass failed, retrying in 30.0 s: 429"], "without a traceback"


async def test_the_queue_is_stuck_while_keys_wait_and_no_pass_comes_further() -> None:
    now = 100.0
    async with Desk(workers=1, clock=lambda: now) as desk:
        assert (desk.queue.oldest_age(), desk.queue.stuck_for()) == (0, 0)
        desk.gate.clear()
        desk.queue.add("a")
        await quiet()
        now = 130.0
        desk.queue.add("b")
        assert (desk.queue.oldest_age(), desk.queue.stuck_for()) == (30, 30)
        desk.queue.moved()
        now = 140.0
        assert (desk.queue.oldest_age(), desk.queue.stuck_for()) == (40, 10)
        desk.gate.set()
        await desk.passes(2)
        await quiet()
        now = 300.0
        assert (desk.queue.oldest_age(), desk.queue.stuck_for()) == (0, 0)


async def test_a_queue_is_not_stuck_however_long_it_is_if_its_passes_end() -> None:
    now = 0.0

    async def handle(_key: int) -> None:
        nonlocal now
        now += 10.0
        assert queue.stuck_for() <= 10.0

    queue = WorkQueue[int](handle, workers=1, clock=lambda: now)
    for key in range(100):
        queue.add(key)
    working = asyncio.create_task(queue.run())
    while queue.depth() > 1:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0)
    assert queue.oldest_age() > 900
    assert queue.stuck_for() <= 10.0
    working.cancel()


async def test_what_is_routine_waits_for_all_else() -> None:
    async with Desk(workers=1) as desk:
        desk.gate.clear()
        desk.queue.add("at work")
        await quiet()
        desk.queue.add("progress", routine=True)
        desk.queue.add("becomes urgent", routine=True)
        desk.queue.add("failure")
        desk.queue.add("becomes urgent")
        desk.gate.set()
        found = await desk.passes(4)
        assert found == ["at work", "failure", "becomes urgent", "progress"]


async def test_what_is_routine_does_not_wait_for_ever() -> None:
    now = 100.0
    async with Desk(workers=1, clock=lambda: now) as desk:
        desk.gate.clear()
        desk.queue.add("at work")
        await quiet()
        desk.queue.add("progress", routine=True)
        now += workqueue.PATIENCE + 1
        desk.queue.add("failure")
        desk.gate.set()
        assert await desk.passes(3) == ["at work", "progress", "failure"]


def test_a_pass_is_asked_for_when_it_is_due() -> None:
    due = {"a": [5.0, 3.0, 0.0], "b": [0.0]}

    async def scene(loop: VirtualLoop) -> None:
        async with Desk() as desk:
            for key in due:
                desk.queue.add_when(key, lambda asked: due[asked].pop(0))
            for moment, done in ((1, ["b"]), (7.5, ["b"]), (8.5, ["b", "a"])):
                await asyncio.sleep(moment - loop.time())
                assert desk.done == done, moment

    in_virtual_time(scene)


@pytest.mark.parametrize("earlier", [5.0, 20.0])
def test_a_pass_at_a_time_and_one_that_will_be_due_put_each_other_off_by_nothing(
    earlier: float,
) -> None:
    async def scene(_loop: VirtualLoop) -> None:
        async with Desk() as desk:
            moments = [earlier, 0.0]
            desk.queue.add_after("a", 10)
            desk.queue.add_when("a", lambda _key: 60.0)
            desk.queue.add_when("a", lambda _key: moments.pop(0))
            await asyncio.sleep(min(earlier, 10) - 0.5)
            assert desk.done == []
            await asyncio.sleep(1)
            assert desk.done == ["a"]
            await asyncio.sleep(60)
            assert desk.done == ["a"], "the first pass is for all that was asked for"

    in_virtual_time(scene)


def test_what_happens_to_a_key_in_a_moment_shares_a_pass() -> None:
    async def scene(_loop: VirtualLoop) -> None:
        async with Desk() as desk:
            for _ in range(3):
                desk.queue.add_soon("a")
                await asyncio.sleep(SOON / 10)
            desk.queue.add("b")
            await asyncio.sleep(2 * SOON)
            assert desk.done == ["b", "a"]

    in_virtual_time(scene)


@pytest.mark.parametrize(("among", "passes"), [(1, 8), (10, 8), (50, 4), (100, 2), (10_000, 0)])
def test_of_many_keys_each_has_fewer_passes_for_what_comes_soon(among: int, passes: int) -> None:
    """Eight events, a quarter of a second apart: as of a job's pods that start."""

    async def scene(_loop: VirtualLoop) -> None:
        async with Desk() as desk:
            for _ in range(8):
                desk.queue.add_soon("a", among)
                await asyncio.sleep(0.25)
            await asyncio.sleep(2)
            assert len(desk.done) == passes

    in_virtual_time(scene)


def test_what_does_not_wait_takes_what_comes_soon_with_it() -> None:
    async def scene(_loop: VirtualLoop) -> None:
        async with Desk() as desk:
            desk.queue.add_soon("a")
            desk.queue.add("a")
            await asyncio.sleep(2 * SOON)
            assert desk.done == ["a"]

    in_virtual_time(scene)


def test_what_comes_soon_takes_nothing_of_the_urgency_of_what_is_due() -> None:
    async def scene(_loop: VirtualLoop) -> None:
        async with Desk(workers=1) as desk:
            desk.answers = [1.0]
            desk.queue.add("a")
            await asyncio.sleep(0.5)
            desk.queue.add_soon("a", among=40)
            desk.gate.clear()
            for key in ("at work", "b", "c", "d"):
                desk.queue.add(key)
            await asyncio.sleep(1)
            desk.queue.add("later")
            desk.gate.set()
            await asyncio.sleep(1)
            assert desk.done == ["a", "at work", "b", "c", "d", "a", "later"]

    in_virtual_time(scene)


async def test_a_pass_that_failed_keeps_its_backoff() -> None:
    async with Desk() as desk:
        desk.answers = [TransientError("429", retry_after=30.0)]
        desk.queue.add("a")
        await desk.passes(1)
        await quiet()
        desk.queue.add_when("a", lambda _key: 0.0)
        await quiet()
        assert desk.done == ["a"]


async def test_what_is_asked_for_during_a_pass_is_not_put_off_by_its_end() -> None:
    async with Desk() as desk:
        desk.gate.clear()
        desk.answers = [60.0]
        desk.queue.add("a")
        await quiet()
        moments = [0.02, 0.0]
        desk.queue.add_when("a", lambda _key: moments.pop(0))
        desk.gate.set()
        assert await desk.passes(2) == ["a", "a"]


async def test_a_pass_gives_way_only_to_what_is_not_routine() -> None:
    ways: list[bool] = []

    async with Desk(workers=1) as desk:

        async def handle(key: str) -> None:
            desk.done.append(key)
            if key == "a" and not ways:
                ways.append(desk.queue.give_way(key))

        desk.queue._handle = handle
        desk.queue.add("a")
        desk.queue.add("b")
        desk.queue.add("c", routine=True)
        assert await desk.passes(4) == ["a", "b", "c", "a"]
        assert ways == [True]
        ways.clear()
        desk.queue.add("a")
        desk.queue.add("c", routine=True)
        assert await desk.passes(6) == ["a", "b", "c", "a", "a", "c"]
        assert ways == [False]


def test_what_a_pass_asks_for_as_routine_comes_after_the_rest() -> None:
    async def scene(_loop: VirtualLoop) -> None:
        async with Desk(workers=1) as desk:
            desk.answers = [Routine(0.02)]
            desk.queue.add("a")
            await desk.passes(1)
            desk.gate.clear()
            desk.queue.add("b")
            await asyncio.sleep(2 * NEXT_ROUTINE)
            desk.queue.add("c")
            desk.gate.set()
            assert await desk.passes(4) == ["a", "b", "c", "a"]

    in_virtual_time(scene)


def test_a_routine_pass_leaves_time_for_what_shares_it() -> None:
    async def scene(_loop: VirtualLoop) -> None:
        async with Desk() as desk:
            desk.answers = [Routine(0.0)]
            desk.queue.add("a")
            await asyncio.sleep(NEXT_ROUTINE / 2)
            desk.queue.add_soon("a")
            await asyncio.sleep(2 * NEXT_ROUTINE)
            assert desk.done == ["a", "a"]

    in_virtual_time(scene)


async def test_routine_passes_leave_workers_to_what_is_urgent() -> None:
    async with Desk(workers=8) as desk:
        desk.gate.clear()
        for number in range(20):
            desk.queue.add(f"routine-{number}", routine=True)
        await quiet()
        assert len(desk.at_work) == 2
        desk.queue.add("urgent")
        await quiet()
        assert "urgent" in desk.at_work
        desk.gate.set()
        await desk.passes(21)


def flood(desk: Desk) -> None:
    """Add a hundred keys of one group, and then one of another."""
    for number in range(100):
        desk.queue.add(f"many/{number}")
    desk.queue.add("few/0")


async def test_groups_of_keys_take_turns() -> None:
    async with Desk(workers=1, group=lambda key: key.partition("/")[0]) as desk:
        flood(desk)
        await desk.passes(3)
        assert "few/0" in desk.done[:2]
    async with Desk(workers=1) as desk:
        flood(desk)
        await desk.passes(101)
        assert desk.done[-1] == "few/0", "without groups it is the last one"


async def test_a_group_whose_passes_hang_leaves_half_of_the_workers_to_others() -> None:
    async with Desk(workers=4, group=lambda key: key.partition("/")[0]) as desk:
        desk.gate.clear()
        flood(desk)
        await quiet()
        assert desk.at_work == {"many/0", "many/1", "few/0"}
        desk.gate.set()
        await desk.passes(101)


async def test_who_gives_a_group_of_keys_away_waits_for_their_passes_only() -> None:
    async with Desk() as desk:
        desk.gate.clear()
        desk.queue.add("given")
        desk.queue.add("kept")
        await quiet()
        assert desk.at_work == {"given", "kept"}
        await asyncio.wait_for(desk.queue.ended(lambda key: key == "unknown"), 1)
        ended = asyncio.create_task(desk.queue.ended(lambda key: key == "given"))
        await quiet()
        assert not ended.done()
        desk.gate.set()
        await asyncio.wait_for(ended, 1)
        assert "given" in desk.done
