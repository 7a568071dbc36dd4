"""Jobs are judged by the API server's clock, whatever that of the operator's machine says."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import format_datetime

import pytest
from tftraining_operator.controller import server_clock
from tftraining_operator.controller.server_clock import ServerClock

from tests.unit.builders import NOW, at


class Machine:
    """The clock of the operator's machine."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def heard(clock: ServerClock, moment: datetime) -> None:
    clock.heard(format_datetime(moment, usegmt=True))


@pytest.mark.parametrize("seconds", [-7200, -11, 11, 180])
def test_where_the_clocks_are_apart_the_servers_counts(seconds: int) -> None:
    machine = Machine()
    clock = ServerClock(machine)
    heard(clock, at(seconds))
    assert clock() == at(seconds)
    machine.now += timedelta(minutes=5)
    assert clock() == at(seconds + 300)


@pytest.mark.parametrize("seconds", [-9, 0, 9])
def test_what_the_network_and_whole_seconds_may_be_is_no_difference(seconds: int) -> None:
    clock = ServerClock(Machine())
    heard(clock, at(seconds))
    assert clock() == NOW


def test_a_clock_that_is_set_right_is_believed_again() -> None:
    machine = Machine()
    clock = ServerClock(machine)
    heard(clock, at(180))
    machine.now = at(190)
    heard(clock, at(191))
    assert clock() == at(190)


@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_a_machine_whose_clock_is_set_ends_no_job_before_its_time(
    monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """What is later than a deadline for a moment would end a job for good."""

    class Set(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=seconds)

    clock = ServerClock()
    heard(clock, datetime.now(UTC) + timedelta(hours=1))
    monkeypatch.setattr(server_clock, "datetime", Set)
    ahead = clock() - datetime.now(UTC)
    assert abs(ahead - timedelta(hours=1)) < timedelta(seconds=5)


def test_the_difference_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ServerClock(Machine())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            heard(clock, at(-180))
    assert [record.message for record in caplog.records] == [
        "this machine's clock is +180 s from the API server's, which is used instead"
    ]


@pytest.mark.parametrize("date", ["", "yesterday", "Fri, 99 Jan 2026 03:04:05 GMT"])
def test_what_is_no_date_says_nothing(date: str) -> None:
    clock = ServerClock(Machine())
    clock.heard(date)
    assert clock() == NOW
