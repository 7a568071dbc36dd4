"""What a listing brings is no garbage, and is not looked through for any."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.controller import garbage
from tftraining_operator.controller.access import Access
from tftraining_operator.controller.kubernetes_api import Listing
from tftraining_operator.controller.listings import Listings
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind, Store, _Known

from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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


class Cycle:
    """What only the collection of garbage takes away, such as a failed request."""

    def __init__(self) -> None:
        self.own = self


class Empty:
    """A cluster that has nothing yet."""

    async def pages(self, _kind: Kind, _namespace: str | None) -> AsyncIterator[Listing]:
        yield await self.list_unlabelled_pods(None)

    async def list_unlabelled_pods(self, _namespace: str | None) -> Listing:
        return Listing([], "7")


def test_what_attempts_to_list_leave_that_failed_is_not_kept() -> None:
    """They may fail for hours, as where the CRD is not installed yet."""
    left: list[weakref.ref[Cycle]] = []

    async def fail_at_first() -> None:
        left.append(weakref.ref(Cycle()))
        if len(left) < 5:
            raise errors.NotFoundError("404 page not found", status=404)

    async def scene(_loop: VirtualLoop) -> None:
        cluster: Any = Empty()
        listings = Listings(
            *(cluster, Store(), (None,), lambda _key: None),
            access=Access(),
            first=[fail_at_first],
            beside=[],
        )
        with garbage.kept():
            await listings.succeed()

    in_virtual_time(scene)
    assert [cycle() for cycle in left[:4]] == [None] * 4
