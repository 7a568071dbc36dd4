"""What is measured of jobs whose pods are taken away, and the page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.api import Api
from e2e.recording import Recording
from e2e.scenarios.preemption.__main__ import table_of
from e2e.scenarios.preemption.measure import Cost, gone_after
from e2e.scenarios.preemption.ways import WAYS
from tools.pages import section

PAGE = Path(__file__).parents[3] / "docs/guide/preemption.md"
COST = Cost(
    gone=1.26, reached=510, resumed=500, interval=200, again=19.6, message="", events=("Queued: x",)
)


def test_what_was_made_behind_the_checkpoint_is_lost() -> None:
    assert COST.lost == 10


def test_a_chief_that_saved_more_than_was_seen_of_it_lost_nothing() -> None:
    saved = Cost(gone=1, reached=510, resumed=512, interval=200, again=1, message="", events=())
    assert saved.lost == 0


def test_a_row_has_the_figures_of_one_way() -> None:
    rows = table_of({way.name: COST for way in WAYS}).splitlines()
    row = next(row for row in rows if WAYS[0].what in row)
    assert row == f"| {WAYS[0].what} | 30 s | 1.3 s | 10 | 200 | 20 s |"


def test_a_chief_is_gone_when_its_pod_is(monkeypatch: pytest.MonkeyPatch) -> None:
    record, clock = Recording(Api(0), "space"), iter((10.0, 12.0, 13.0, 15.5))
    monkeypatch.setattr("e2e.recording.time.monotonic", lambda: next(clock))

    def pod(uid: str, **metadata: Any) -> dict[str, Any]:
        return {"metadata": {"name": "mnist-chief-0", "uid": uid, **metadata}}

    record.see_pod("MODIFIED", pod("a"))
    assert gone_after(record, "a") is None
    record.see_pod("MODIFIED", pod("a", deletionTimestamp="2026-01-02T03:04:05Z"))
    record.see_pod("ADDED", pod("b"))
    assert gone_after(record, "a") is None
    record.see_pod("DELETED", pod("a", deletionTimestamp="2026-01-02T03:04:05Z"))
    assert gone_after(record, "a") == pytest.approx(3.5)


def test_the_page_has_the_figures_of_each_way() -> None:
    rows = [line for line in section(PAGE, "measured").splitlines() if line.startswith("| ")][1:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in rows] == [way.what for way in WAYS]


def test_the_events_on_the_page_tell_of_the_preemption_in_order() -> None:
    told = [line.partition(":")[0] for line in section(PAGE, "events").splitlines()]
    expected = ["Admitted", "Preempted", "Queued", "Admitted", "ResumedFromCheckpoint", "Succeeded"]
    remaining = iter(told)
    assert all(reason in remaining for reason in expected), told
