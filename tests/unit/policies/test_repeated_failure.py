"""The same exception at the same step, three times in a row."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import CheckpointStatus, Progress, Restart
from tftraining_operator.core.policies import repeated_failure

from tests.unit.builders import a_job, a_pod, seen, stamp

TEXT = "ValueError: bad label 7"


def verdict(
    *, code: int = 1, text: str = TEXT, policy: bool = True, step: int = 100, **before: Any
) -> str:
    fields: dict[str, Any] = {"reason": "ChiefFailed", "time": stamp(), "counted": True}
    fields |= {"failure_text": TEXT, "step": 100, "checkpoint_step": 90, "repeats": 2, **before}
    job = a_job().with_policy(stopOnRepeatedFailure=policy)
    job.with_status(
        last_restart=Restart(**fields),
        progress=Progress(step=step, steps_per_second="2", updated_at=stamp()),
        last_checkpoint=CheckpointStatus(step=90, time=stamp(), path="/c/ckpt-90"),
    )
    built = job.build()
    (chief,) = seen(built, a_pod(built, Role.CHIEF).exited(code, text)).pods.values()
    return repeated_failure.verdict(built, chief)


def test_the_third_time_is_the_last() -> None:
    assert verdict().startswith("the same failure occurred 3 times in a row at the same step")
    assert verdict(repeats=1) == ""


def test_the_place_in_the_users_code_may_be_missing_once() -> None:
    assert verdict(text=f"{TEXT} (/my task/task.py, line 12)")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"policy": False}, id="switched off"),
        pytest.param({"text": "ValueError: bad label 8"}, id="another exception"),
        pytest.param({"code": 75}, id="a lost ps is nobody's code"),
        pytest.param({"text": ""}, id="nothing is known of it"),
        pytest.param({"checkpoint_step": 80}, id="it got further"),
        pytest.param({"step": 200}, id="at another step"),
        pytest.param({"counted": False}, id="a disruption lay between"),
    ],
)
def test_not_if(given: dict[str, Any]) -> None:
    assert verdict(**given) == ""


def test_the_step_is_known_as_exactly_as_it_is_polled() -> None:
    assert verdict(step=118)
