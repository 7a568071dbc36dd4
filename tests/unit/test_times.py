"""Timestamps as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from tftraining_operator.core import times

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(MOMENT, id="UTC"),
        pytest.param(MOMENT.astimezone(timezone(timedelta(hours=9))), id="another zone"),
        pytest.param(MOMENT + timedelta(microseconds=999_999), id="a part of a second is cut"),
    ],
)
def test_a_moment_is_written_in_utc_and_whole_seconds(moment: datetime) -> None:
    assert times.rfc3339(moment) == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2026-01-02T03:04:05Z", id="as Kubernetes writes it"),
        pytest.param("2026-01-02T03:04:05.000000Z", id="as a MicroTime"),
        pytest.param("2026-01-02T04:04:05+01:00", id="with an offset"),
        pytest.param("2026-01-02T03:04:05", id="without one, which is UTC"),
    ],
)
def test_a_written_moment_is_read_back(text: str) -> None:
    assert times.parse(text) == MOMENT


def test_seconds_are_counted_from_a_text_and_none_without() -> None:
    assert times.seconds_since("2026-01-02T03:04:00Z", MOMENT) == 5
    assert times.seconds_since(None, MOMENT) == 0


@pytest.mark.parametrize(
    ("text", "created", "bounded"),
    [
        pytest.param(None, "2026-01-02T03:00:00Z", None, id="no time"),
        pytest.param(
            "2026-01-02T03:04:00Z", "2026-01-02T03:00:00Z", "2026-01-02T03:04:00Z", id="true"
        ),
        pytest.param("2026-01-02T04:00:00Z", None, "2026-01-02T03:04:05Z", id="not after now"),
        pytest.param(
            "2026-01-02T02:00:00Z",
            "2026-01-02T03:00:00Z",
            "2026-01-02T03:00:00Z",
            id="not before the creation",
        ),
        pytest.param(
            "2026-01-02T03:04:00Z",
            "2026-01-02T03:05:00Z",
            "2026-01-02T03:04:00Z",
            id="not after now, though the API server's clock is ahead",
        ),
    ],
)
def test_a_time_of_a_node_is_bounded(
    text: str | None, created: str | None, bounded: str | None
) -> None:
    assert times.bounded(text, created, MOMENT) == bounded
