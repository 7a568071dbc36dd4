"""Writes that can wait take turns: a moment in which all jobs have news is no flood of writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tftraining_operator.core.pace import Pace

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def waits(pace: Pace, count: int, at: float = 0.0) -> list[float]:
    """In how many seconds each of so many that come at once has its turn."""
    now = NOW + timedelta(seconds=at)
    return [(pace.turn(now) - now).total_seconds() for _ in range(count)]


def test_what_comes_now_and_then_never_waits() -> None:
    pace = Pace(20)
    assert [waits(pace, 1, at=second)[0] for second in range(5)] == [0.0] * 5


def test_of_a_crowd_a_seconds_worth_goes_at_once_and_the_rest_in_turns() -> None:
    found = waits(Pace(20), 60)
    assert found[:20] == [0.0] * 20
    assert found[20:22] == [0.05, 0.1]
    assert found[-1] == 2.0


def test_turns_that_were_given_are_not_given_again() -> None:
    pace = Pace(20)
    waits(pace, 60)
    assert waits(pace, 2, at=1.0) == [1.05, 1.1]
    assert waits(pace, 21, at=60.0)[-2:] == [0.0, 0.05]


def begins(pace: Pace, count: int, at: float = 0.0) -> list[float]:
    """When so many begin to write whose turn has come, each as soon as it may."""
    moments, now = [], NOW + timedelta(seconds=at)
    for _ in range(count):
        while (at := pace.begin(now)) > now:
            now = at
        moments.append((now - NOW).total_seconds())
    return moments


def test_a_server_that_is_late_is_given_fewer_writes_until_it_is_not() -> None:
    pace = Pace(20)
    assert begins(pace, 20) == [0.0] * 20
    for _ in range(50):
        pace.took(timedelta(seconds=1))
    assert begins(pace, 4) == pytest.approx([0.0, 4.0, 9.0, 14.0], abs=0.01)
    for _ in range(50):
        pace.took(timedelta(milliseconds=10))
    assert begins(pace, 20, at=60) == [60.0] * 20


def test_a_clock_that_is_set_back_makes_nothing_urgent() -> None:
    pace, other = Pace(20), Pace(20)
    for each in (pace, other):
        each.took(timedelta(seconds=1))
    pace.give_way(NOW + timedelta(seconds=3600))
    assert begins(pace, 20) == begins(other, 20)


def test_beside_what_is_urgent_there_are_a_quarter_of_the_writes() -> None:
    pace = Pace(20)
    for _ in range(50):
        pace.took(timedelta(seconds=0.1))
    assert begins(pace, 4) == pytest.approx([0.0, 0.0, 0.0, 0.5], abs=0.06)
    pace.give_way(NOW + timedelta(seconds=60))
    assert begins(pace, 3, at=60) == pytest.approx([60.0, 61.0, 63.0], abs=0.06)
    assert begins(pace, 4, at=120) == pytest.approx([120.0, 120.0, 120.0, 120.5], abs=0.06)


def test_turns_that_were_given_while_the_server_was_late_come_as_soon_as_others() -> None:
    pace = Pace(20)
    for _ in range(50):
        pace.took(timedelta(seconds=2))
    assert waits(pace, 1000)[-1] == pytest.approx(49.0)


def test_a_clock_that_is_set_back_makes_no_flood() -> None:
    pace = Pace(20)
    pace.took(timedelta(seconds=-3600))
    assert waits(pace, 21)[-2:] == [0.0, 0.05]
