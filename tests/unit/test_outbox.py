"""Events are recorded in their order, and nobody waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.types import ObjectMeta
from tftraining_operator.controller import outbox as outbox_module
from tftraining_operator.controller.outbox import Outbox
from tftraining_operator.core.events import Action, Event
from tftraining_operator.reconcile import limits

from tests.unit.virtual_time import VirtualLoop, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MNIST, OTHER = (ObjectMeta(namespace="default", name=n, uid=n) for n in ("mnist", "other"))
SLOW = 5.0


class SlowRecord:
    """Needs some seconds for each batch; keeps when which was recorded."""

    def __init__(self) -> None:
        self.recorded: list[tuple[float, str, str]] = []

    async def __call__(self, job: ObjectMeta, events: list[Event]) -> None:
        await asyncio.sleep(SLOW)
        now = asyncio.get_running_loop().time()
        self.recorded += [(now, job.name, event.reason) for event in events]


def events(*reasons: str) -> list[Event]:
    return [Event(reason, "note", Action.OBSERVE) for reason in reasons]


def played(scene: Callable[[VirtualLoop, Outbox], Awaitable[None]]) -> SlowRecord:
    record = SlowRecord()

    async def play(loop: VirtualLoop) -> None:
        await scene(loop, Outbox(record))

    in_virtual_time(play)
    return record


def test_no_pass_waits_for_its_events_and_those_of_a_job_keep_their_order() -> None:
    async def scene(loop: VirtualLoop, outbox: Outbox) -> None:
        await outbox(MNIST, events("ExitCode", "Restarting"))
        await outbox(OTHER, events("Created"))
        await outbox(MNIST, [])
        assert loop.time() == 0
        await outbox(MNIST, events("Created"))
        assert loop.time() == 0
        await outbox.close(60)

    assert played(scene).recorded == [
        (SLOW, "mnist", "ExitCode"),
        (SLOW, "mnist", "Restarting"),
        (SLOW, "other", "Created"),
        (2 * SLOW, "mnist", "Created"),
    ]


def test_of_one_job_not_more_than_some_batches_wait() -> None:
    async def scene(loop: VirtualLoop, outbox: Outbox) -> None:
        for _ in range(outbox_module._MOST):
            await outbox(MNIST, events("Created"))
        assert loop.time() == 0
        await outbox(MNIST, events("Running"))
        assert loop.time() == SLOW
        await outbox(OTHER, events("Created"))
        assert loop.time() == SLOW, "those of one job keep no other waiting"
        await outbox.close(60)

    names = [name for _, name, reason in played(scene).recorded if reason == "Running"]
    assert names == ["mnist"]


@pytest.mark.parametrize(
    ("namespaces", "most"), [(1, limits.EVENTS // 2), (2, limits.EVENTS), (9, limits.EVENTS)]
)
def test_events_that_a_webhook_holds_up_are_few_at_once_however_many_jobs_have_some(
    namespaces: int, most: int
) -> None:
    async def scene(_loop: VirtualLoop, outbox: Outbox) -> None:
        for number in range(300):
            namespace, name = f"n{number % namespaces}", str(number)
            job = ObjectMeta(namespace=namespace, name=name, uid=name)
            await outbox(job, events("Created"))
        await outbox.close(3600)

    recorded = played(scene).recorded
    assert len({name for _, name, _ in recorded}) == 300
    assert max(Counter(moment for moment, _, _ in recorded).values()) == most


def test_who_stops_gives_the_last_events_some_time_and_not_more() -> None:
    async def scene(loop: VirtualLoop, outbox: Outbox) -> None:
        await outbox(MNIST, events("Created"))
        await outbox.close(2)
        assert loop.time() == 2
        await outbox.close(2)
        assert loop.time() == 2, "nothing is under way"

    assert played(scene).recorded == []


def test_a_batch_that_cannot_be_recorded_keeps_no_other_back() -> None:
    told = []

    async def record(_job: ObjectMeta, batch: list[Event]) -> None:
        await asyncio.sleep(SLOW)
        if not told:
            told.append("failed")
            raise ValueError(batch)
        told.extend(event.reason for event in batch)

    async def play(_loop: VirtualLoop) -> None:
        outbox = Outbox(record)
        await outbox(MNIST, events("Created"))
        await outbox(MNIST, events("PodsReady"))
        await outbox.close(60)

    in_virtual_time(play)
    assert told == ["failed", "PodsReady"]
