"""Rows of `tftj list`."""

from __future__ import annotations

import pytest
from tftraining.view import table
from tftraining_operator.api.crd import crd

from tests.unit.builders import Raw, a_job, at, stamp


def a_row(raw: Raw, **options: bool) -> dict[str, str]:
    titles, row = table.table([raw], at(125), **options)
    return dict(zip(titles, row, strict=True))


def test_a_job_of_which_nothing_is_known_is_unseen() -> None:
    raw = a_job().raw
    raw["metadata"]["creationTimestamp"] = stamp()
    expected = {"NAME": "mnist", "STATE": "Unseen", "RESTARTS": "0", "AGE": "2m5s"}
    assert {k: v for k, v in a_row(raw).items() if v} == expected


def test_the_columns_are_those_of_kubectl_get() -> None:
    printed = crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    wide = {column["name"].upper() for column in printed}
    narrow = {column["name"].upper() for column in printed if not column.get("priority")}
    assert set(a_row(a_job().raw, wide=True)) == wide | {"NAME"}
    assert set(a_row(a_job().raw)) == narrow | {"NAME"}
    assert "NAMESPACE" in a_row(a_job().raw, everywhere=True)


@pytest.mark.parametrize(("state", "left"), [("Running", "30s"), ("Suspended", "")])
def test_only_a_job_that_trains_has_time_left(state: str, left: str) -> None:
    job = a_job().with_status(state=state).raw
    job["status"]["progress"] = {"etaText": "30s"}
    assert a_row(job, wide=True)["ETA"] == left


def test_what_a_user_wrote_cannot_break_the_table() -> None:
    raw = a_job().raw
    raw["status"] = {"message": "first\nsecond\x1b[2J"}
    assert a_row(raw, wide=True)["MESSAGE"] == "first second"


def test_lines_align_their_columns() -> None:
    assert table.lines([["A", "B"], ["long", "x"]]) == ["A      B", "long   x"]
