"""Jobs that nobody has looked at for a while are looked at by need, and not all at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.controller.first_looks import FirstLooks
from tftraining_operator.reconcile.store import JobKey, Kind, Store
from tftraining_operator.reconcile.workqueue import WorkQueue

from tests.unit.builders import NOW, a_job
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.virtual_time import VirtualLoop


def test_jobs_at_rest_are_looked_at_after_the_others_and_not_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"rests-{number}" for number in range(1000)]
    moments = _first_looks(monkeypatch, names)
    assert list(moments) == ["fails", *names]
    assert moments["rests-0"] == pytest.approx(0, abs=0.2)
    assert moments["rests-999"] == pytest.approx(4, abs=0.5)


def test_where_passes_take_long_most_of_the_time_is_left_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"rests-{number}" for number in range(100)]
    moments = _first_looks(monkeypatch, names, takes=0.02)
    assert list(moments) == ["fails", *names]
    assert moments["rests-99"] - moments["rests-0"] == pytest.approx(100 * 0.02 * 4, rel=0.3)


def _first_looks(
    monkeypatch: pytest.MonkeyPatch, names: Sequence[str], *, takes: float = 0.0
) -> dict[str, float]:
    """Return when the first passes begin over jobs at rest, and on one that is not.

    Each pass keeps the processor for a time (s).
    """
    moments: dict[str, float] = {}
    monkeypatch.setattr(
        "tftraining_operator.controller.first_looks.is_at_rest",
        lambda raw, _pods, _now: raw["metadata"]["name"] != "fails",
    )

    async def scene(loop: VirtualLoop) -> None:
        async def work(key: JobKey) -> float | None:
            moments[key.name] = loop.time()
            loop.jump(takes)
            return None

        store, queue = Store(), WorkQueue[JobKey](work, workers=1)
        for name in (*names, "fails"):
            job = a_job().named(name, uid=name).raw
            job["metadata"]["resourceVersion"] = "7"
            store.put(Kind.JOB, job)
        working = asyncio.create_task(queue.run())
        await asyncio.sleep(0)
        FirstLooks(store, queue.add, lambda: NOW).begin(store.job_keys())
        await asyncio.sleep(20)
        working.cancel()

    in_virtual_time(scene)
    return moments
