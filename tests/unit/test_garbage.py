"""What a listing brings is no garbage, and is not looked through for any."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.controller import garbage
from tftraining_operator.reconcile.store import JobKey, Kind, _Known

from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.virtual_time import VirtualLoop

RAW = {"metadata": {"name": "mnist", "namespace": "n", "uid": "u1", "resourceVersion": "7"}}


@pytest.fixture(autouse=True)
def settings_of_the_collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_was_made_meanwhile_is_not_looked_through() -> None:
    with garbage.kept():
        assert not gc.isenabled()
        kept: list[object] = [[] for _ in range(1000)]
    assert gc.isenabled()
    looked_at = {id(each) for each in gc.get_objects()}
    assert not any(id(each) in looked_at for each in kept)


def test_after_a_failure_garbage_is_looked_for_again() -> None:
    with pytest.raises(RuntimeError), garbage.kept():
        raise RuntimeError
    assert gc.isenabled()


def test_what_is_new_is_looked_through_before_it_is_much() -> None:
    kept: list[object] = []

    async def scene(_loop: VirtualLoop) -> None:
        looking = asyncio.create_task(garbage.look_often())
        for _ in range(3):
            kept.append([])
            await asyncio.sleep(1.01)
            young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
            assert id(kept[-1]) not in young
        looking.cancel()

    gc.disable()
    try:
        in_virtual_time(scene)
    finally:
        gc.enable()


def test_an_object_that_is_kept_is_not_looked_through() -> None:
    assert not gc.is_tracked(_Known.of(Kind.POD, JobKey("n", "mnist"), RAW, 1))
