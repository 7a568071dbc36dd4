"""When the next chief may be created."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Restart
from tftraining_operator.core.policies.restart import next_chief_due, restart_record

from tests.unit.builders import a_job, a_pod, at, seen, stamp

RAN = {"first_running_time": stamp()}


def not_before(*, counted: bool, **status: Any) -> str | None:
    job = a_job().with_status(**status).build()
    record = restart_record(job, Reason.CHIEF_FAILED, "", None, counted=counted, now=at(100))
    return record.not_before


@pytest.mark.parametrize(
    ("restarts", "delay"),
    [
        pytest.param(0, None, id="the first restart is at once"),
        pytest.param(1, 10, id="then 10 s"),
        pytest.param(2, 20, id="20"),
        pytest.param(5, 160, id="160"),
        pytest.param(6, 300, id="at most 300"),
        pytest.param(1000, 300, id="and never more"),
    ],
)
def test_a_counted_restart_waits_ever_longer(restarts: int, delay: float | None) -> None:
    found = not_before(counted=True, restarts=restarts, **RAN)
    assert found == (None if delay is None else stamp(100 + delay))


def test_what_is_not_counted_is_at_once_if_the_training_ran() -> None:
    assert not_before(counted=False, restarts=9, failed_starts=9, **RAN) is None


@pytest.mark.parametrize(
    ("failed_starts", "delay"), [(0, None), (1, 10), (3, 40), (9, 300)], ids=str
)
def test_a_node_that_refuses_each_pod_makes_no_hot_loop(
    failed_starts: int, delay: float | None
) -> None:
    found = not_before(
        counted=False, failed_starts=failed_starts, interrupted_time=stamp(50), **RAN
    )
    assert found == (None if delay is None else stamp(100 + delay))


def test_the_stored_time_decides_whatever_a_nodes_clock_says() -> None:
    last = Restart(reason="ChiefFailed", time=stamp(), counted=True, not_before=stamp(40))
    assert next_chief_due(a_job().with_status(last_restart=last).build()) == at(40)
    assert next_chief_due(a_job().with_status().build()) is None


def test_a_restart_keeps_what_the_next_has_to_know() -> None:
    job = a_job().with_status().build()
    (chief,) = seen(job, a_pod(job, Role.CHIEF).exited(1, "ValueError: no\nmore")).pods.values()
    record = restart_record(job, Reason.CHIEF_FAILED, "it failed", chief, counted=True, now=at(5))
    assert (record.failure_reason, record.failure_text, record.repeats) == (
        "ExitCode",
        "ValueError: no",
        1,
    )
