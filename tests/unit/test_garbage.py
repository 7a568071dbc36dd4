"""What a listing brings is no garbage, and is not looked through for any."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.controller import garbage
from tftraining_operator.reconcile.store import JobKey, Kind, _Known

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def test_an_object_that_is_kept_is_not_looked_through() -> None:
    assert not gc.is_tracked(_Known.of(Kind.POD, JobKey("n", "mnist"), RAW, 1))
