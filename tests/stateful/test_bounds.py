"""However large a job and however long the words, its status and events stay small."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.progress import parse_report

from tests.stateful.scenarios import STATUS_BYTES, World
from tests.unit.builders import PodBuilder, a_job
from tests.unit.fakes import EVENT_NOTE_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


WORKERS = 1000
WORDS = "火" * 10_000
LONG = "m" * 5_000

TROUBLES: dict[str, Callable[[PodBuilder], object]] = {
    "all fail": lambda pod: pod.exited(1, WORDS),
    "all fail with long reasons": lambda pod: pod.exited(1, WORDS, reason=LONG),
    "all are evicted": lambda pod: pod.evicted(WORDS),
    "no image can be pulled": lambda pod: pod.waiting(LONG, WORDS),
    "none can be scheduled": lambda pod: pod.unschedulable(WORDS),
}


def assert_bounded(world: World) -> None:
    sizes = [len(json.dumps(s.as_dict()).encode()) for s in world.cluster.statuses]
    assert 0 < max(sizes) < STATUS_BYTES
    assert all(len(event["note"].encode()) <= EVENT_NOTE_BYTES for event in world.cluster.events)


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_thousand_pods_in_trouble_with_long_words(
    runner: asyncio.Runner, trouble: Callable[[PodBuilder], object]
) -> None:
    world = World(runner, a_job().with_workers(1))
    world.cluster.edit(world.key, lambda spec: spec["worker"].update(replicas=WORKERS))
    (operator,) = world.operators
    operator.settle()
    assert len(world.cluster.pods()) == WORKERS + 2
    for name in world.cluster.pods():
        world.cluster.act(name, trouble)
    operator.settle()
    assert len(world.cluster.statuses) > 1
    assert_bounded(world)


def test_many_failures_in_a_row_leave_no_more_than_few(runner: asyncio.Runner) -> None:
    world = World(runner, a_job().with_policy(backoffLimit=40))
    sizes = []
    for number in range(40):
        world.ends("mnist-chief-0", (1, 75, 137)[number % 3])
        world.go_on(600)
        sizes.append(len(json.dumps(world.cluster.job(world.key)["status"])))
    assert world.cluster.status(world.key).restarts == 40
    assert sizes[-1] < sizes[5] + 100, "it does not grow with the attempts"
    assert_bounded(world)


def test_reports_that_say_as_much_as_they_may(runner: asyncio.Runner) -> None:
    unreachable = {"task": "火" * 200, "seconds": 1e9, "reason": "火" * 200}
    document = {
        "step": 2**62,
        "totalSteps": 2**62,
        "stepsPerSecond": 1e-300,
        "waitingFor": ["火" * 253] * WORKERS,
        "unreachable": [unreachable] * WORKERS,
        "metrics": {f"{number:04}" + "火" * 1000: 1e300 for number in range(1000)},
        "lastCheckpoint": {"step": 1, "time": "2026-01-01T00:00:00Z", "path": "火" * 4096},
        "best": {
            "step": 1,
            "metric": "火" * 1024,
            "value": 1e300,
            "path": "火" * 1024,
            "exportPath": "火" * 1024,
        },
        "model": {"step": 1, "path": "火" * 1024, "formats": ["火" * 63] * 8},
    }
    report = parse_report(json.dumps(document))
    assert report is not None
    world = World(runner, a_job().with_evaluator())
    (operator,) = world.operators
    for role in (Role.CHIEF, Role.EVALUATOR):
        operator.progress.told[role] = report
    operator.look(world.key)
    world.go_on(30)
    status = world.cluster.status(world.key)
    assert status.progress is not None
    assert status.evaluation is not None
    assert status.model is not None
    assert status.best is not None
    assert_bounded(world)
