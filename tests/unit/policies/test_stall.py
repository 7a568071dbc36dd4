"""What is known of the newest step, and from when it counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import Progress
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.policies import stall
from tftraining_operator.core.policies.stall import StepAge
from tftraining_operator.core.progress import Report

from tests.unit.builders import a_job, a_pod, at, seen, stamp

RAN: dict[str, Any] = {"first_running_time": stamp(), "chief_uid": "uid-of-mnist-chief-0"}


def age(
    report: Report | None, *, now: float = 100, asked: float | None = 0, **status: Any
) -> StepAge:
    job = a_job().with_status(**RAN, **status).build()
    facts = Facts(
        reports={Role.CHIEF: report} if report else {},
        asked_since=at(asked) if asked is not None else None,
    )
    chief = a_pod(job, Role.CHIEF).running(seconds=20)
    return stall.newest_step(job, seen(job, chief), facts, at(now))


def said(received: float = 100, **fields: Any) -> Report:
    return Report(received=at(received), **fields)


@pytest.mark.parametrize(
    ("report", "since", "until"),
    [
        pytest.param(said(step=7, seconds_since_step=30), 70, 100, id="as the chief says it"),
        pytest.param(said(90, step=7, seconds_since_step=30), 60, 90, id="when it said it"),
        pytest.param(said(step=0), 20, 100, id="without a step, from when the chief was ready"),
        pytest.param(said(step=7), 100, 100, id="a step that the status does not know is new"),
        pytest.param(
            said(70, step=0, fresh_for=timedelta(seconds=40)), 20, 85, id="of old, for 15 s"
        ),
    ],
)
def test_the_age_of_the_newest_step(report: Report, since: float, until: float) -> None:
    assert age(report) == StepAge(since=at(since), until=at(until), is_known=True)


def test_a_report_that_is_old_where_many_are_asked_is_no_stall() -> None:
    """Pods are asked once a minute then, and the steps since the last report are not known."""
    report = said(100, step=7, seconds_since_step=0.1, fresh_for=timedelta(seconds=96))
    job = a_job().with_policy(stallTimeoutSeconds=30).with_status(**RAN).build()
    found = age(report, now=190)
    assert found.is_known
    assert not stall.has_timed_out(job, found)
    assert not stall.is_silent(report, found)


def test_a_limit_of_more_than_ten_hours_is_kept() -> None:
    job = a_job().with_policy(stallTimeoutSeconds=40_000).with_status(**RAN).build()
    assert stall.has_timed_out(job, age(said(step=7, seconds_since_step=40_000)))


def test_a_chief_that_tells_no_ages_is_judged_by_what_was_seen() -> None:
    known = Progress(step=7, updated_at=stamp(40), last_step_time=stamp(35))
    assert age(said(step=7), progress=known).since == at(35)


def test_all_steps_done_is_no_stall() -> None:
    assert age(said(step=9, total_steps=9)) == StepAge(is_known=True, completed=True)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(None, id="none"),
        pytest.param(said(received=84, step=7, seconds_since_step=900), id="an old one"),
    ],
)
def test_without_a_fresh_report_nothing_is_known(report: Report | None) -> None:
    assert age(report) == StepAge()


def test_the_first_report_is_waited_for() -> None:
    assert age(None, asked=80).awaited_until == at(110)


@pytest.mark.parametrize(
    ("policy", "status", "over"),
    [
        pytest.param({}, {}, None, id="off by default"),
        pytest.param({"stallTimeoutSeconds": 90}, {}, 160, id="from the newest step"),
        pytest.param(
            {"stallTimeoutSeconds": 90},
            {"interrupted_time": stamp(50)},
            None,
            id="not while the training is interrupted",
        ),
        pytest.param(
            {"stallTimeoutSeconds": 90},
            {"first_running_time": None},
            None,
            id="not before the training has run: the startup deadline limits that",
        ),
    ],
)
def test_stall_timeout(policy: dict[str, Any], status: dict[str, Any], over: float | None) -> None:
    job = a_job().with_policy(**policy).with_status(**{**RAN, **status}).build()
    for until in (159, 160, 900):
        found = StepAge(since=at(70), until=at(until), is_known=True)
        assert stall.has_timed_out(job, found) == (over is not None and until >= over)


def test_what_is_not_known_is_never_due() -> None:
    job = a_job().with_policy(stallTimeoutSeconds=1).with_status(**RAN).build()
    assert not stall.has_timed_out(job, StepAge())
    assert not stall.is_silent(None, StepAge())
    assert stall.next_look(job, None, StepAge(), at(0)) is None


@pytest.mark.parametrize(
    ("rate", "due"),
    [
        pytest.param(None, 90, id="a minute after the last step"),
        pytest.param(0.05, 230, id="ten steps, where one takes long"),
        pytest.param(1e-9, 3630, id="an hour at most"),
        pytest.param(0.0, 90, id="without a rate"),
    ],
)
def test_silence(rate: float | None, due: float) -> None:
    for until in (due - 1, due):
        report = said(until, steps_per_second=rate, seconds_since_step=until - 30)
        found = StepAge(since=at(30), until=at(until), is_known=True)
        assert stall.is_silent(report, found) == bool(report.standing()) == (until == due)


@pytest.mark.parametrize(
    ("told", "until", "now", "look"),
    [
        pytest.param(1.0, 100, 100, None, id="a report asks for it"),
        pytest.param(None, 100, 100, 120, id="the stall timeout"),
        pytest.param(None, 125, 125, 150, id="then silence"),
        pytest.param(None, 160, 160, None, id="both are over"),
        pytest.param(None, 110, 121, 126, id="again, until there is a newer report"),
    ],
)
def test_when_to_look_again(
    told: float | None, until: float, now: float, look: float | None
) -> None:
    job = a_job().with_policy(stallTimeoutSeconds=30).with_status(**RAN).build()
    found = StepAge(since=at(90), until=at(until), is_known=True)
    moment = stall.next_look(job, said(until, seconds_since_step=told), found, at(now))
    assert moment == (None if look is None else at(look))
