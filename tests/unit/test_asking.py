"""How often pods are asked for their progress: by how many there are, and by what they answered."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.controller import poller
from tftraining_operator.controller.poller import ProgressPoller
from tftraining_operator.core.progress import FRESH, asked_per_second, asked_within
from tftraining_operator.reconcile.protocols import Target
from tftraining_operator.reconcile.store import JobKey

from tests.unit.builders import NOW
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from tests.unit.virtual_time import VirtualLoop

INTERVAL = 5.0


class Crowd:
    """The chiefs, or evaluators, of so many jobs, who are asked for so long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = True
        self.role = Role.CHIEF
        self.asked: Counter[str] = Counter()
        self.fresh_for = FRESH
        monkeypatch.setattr(poller, "ask", self._ask)

    async def _ask(self, url: str) -> tuple[int, str]:
        self.asked[url] += 1
        if not self.answers:
            raise ConnectionRefusedError(url)
        return 200, json.dumps({"step": self.asked[url]})

    def pass_by(self, jobs: int, seconds: float) -> None:
        async def scene(loop: VirtualLoop) -> None:
            found = ProgressPoller(
                lambda _key: None,
                INTERVAL,
                lambda: NOW,
                progressed=lambda _key: None,
                monotonic=loop.time,
            )
            keys = [JobKey("default", f"job-{number}") for number in range(jobs)]
            for key in keys:
                found.watch(key, {self.role: Target(f"uid-of-{key.name}", f"http://{key.name}")})
            asking = asyncio.create_task(found.run())
            await asyncio.wait({asking}, timeout=seconds)
            assert not asking.done()
            for report in found.reports(keys[0]).values():
                self.fresh_for = report.fresh_for
            asking.cancel()

        in_virtual_time(scene)


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Crowd:
    return Crowd(monkeypatch)


@pytest.mark.parametrize(
    ("role", "jobs", "interval"),
    [
        pytest.param(Role.CHIEF, 1, INTERVAL, id="one"),
        pytest.param(Role.CHIEF, 250, INTERVAL, id="as many as are asked in that time"),
        pytest.param(Role.CHIEF, 1000, 20.0, id="more"),
        pytest.param(Role.CHIEF, 8000, 60.0, id="very many"),
        pytest.param(Role.EVALUATOR, 80, INTERVAL, id="few evaluators"),
        pytest.param(Role.EVALUATOR, 1000, 60.0, id="more evaluators, a third as often"),
    ],
)
def test_where_many_report_each_is_asked_less_often(
    crowd: Crowd, role: Role, jobs: int, interval: float
) -> None:
    crowd.role = role
    first = jobs / asked_per_second(role)
    crowd.pass_by(jobs, first + 5 * interval)
    counts = crowd.asked.values()
    assert len(counts) == jobs
    assert min(counts) >= 5
    assert max(counts) <= 6 + math.ceil(first / interval)
    assert crowd.fresh_for.total_seconds() >= 1.1 * interval + 2, "until the next one has come"
    assert crowd.fresh_for == FRESH or jobs > 250


def test_a_crowd_is_not_asked_in_one_moment(crowd: Crowd) -> None:
    crowd.pass_by(400, 1.01)
    assert len(crowd.asked) == 100, "what a second may have brought, and then one second's"


def test_all_of_a_crowd_are_asked_as_soon_as_the_facts_say(crowd: Crowd) -> None:
    crowd.pass_by(1000, asked_within(1000).total_seconds() + 0.01)
    assert len(crowd.asked) == 1000


def test_the_first_report_is_asked_for_as_often_as_that_of_one(crowd: Crowd) -> None:
    crowd.answers = False
    crowd.pass_by(500, asked_within(500).total_seconds() + 5.5 * INTERVAL)
    assert min(crowd.asked.values()) >= 6
    assert max(crowd.asked.values()) <= 9, "the first are asked for 9 s more"


def test_who_never_answers_is_asked_four_times_less_often_for_ever(crowd: Crowd) -> None:
    crowd.answers = False
    day = 24 * 3600.0
    crowd.pass_by(1, day)
    assert crowd.asked["http://job-0"] == pytest.approx(day / INTERVAL / 4, rel=0.05)
