"""A server that is ready for its node, and silent for its chief, is replaced."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.policies.reachability import unreachable
from tftraining_operator.core.progress import Report, UnreachablePeer

from tests.unit.builders import JobBuilder, PodBuilder, a_job, a_pod, at, seen

READY_AT = 100.0
TOLD_AT = 200.0


def told(
    seconds: float,
    task: str = "worker-1",
    *,
    at_second: float | None = TOLD_AT,
    since_step: float | None = None,
) -> Report:
    peer = UnreachablePeer(task=task, seconds=seconds, reason="connects, but does not serve")
    received = at(at_second) if at_second is not None else None
    return Report(step=5, unreachable=[peer], received=received, seconds_since_step=since_step)


def silent(
    report: Report,
    *,
    now: float = TOLD_AT,
    job: JobBuilder | None = None,
    change: Any = lambda _: None,
) -> dict[str, str]:
    built = (job or a_job().with_workers(2)).build()
    pods: list[PodBuilder] = [
        a_pod(built, Role.WORKER, i).running(seconds=READY_AT) for i in range(2)
    ]
    change(pods[1])
    ps = [a_pod(built, Role.PS).running(seconds=READY_AT)] if built.desired(Role.PS) else []
    found = unreachable(built, seen(built, *pods, *ps), {Role.CHIEF: report}, at(now))
    return {pod.name: why for pod, why in found.items()}


def test_it_is_replaced_after_ten_seconds() -> None:
    assert silent(told(9.9)) == {}
    assert silent(told(12.3)) == {
        "mnist-worker-1": "the chief cannot reach it for 12 s (connects, but does not serve)"
    }


def test_a_ps_as_well() -> None:
    assert list(silent(told(10, "ps-0"))) == ["mnist-ps-0"]
    assert list(silent(told(12, "ps-0", since_step=10))) == ["mnist-ps-0"]


def test_no_ps_on_which_steps_are_made() -> None:
    assert silent(told(30, "ps-0", since_step=9.9)) == {}
    assert silent(told(30, "worker-1", since_step=0))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: pod.running(ready=False), id="its node knows already"),
        pytest.param(PodBuilder.deleting, id="it is on its way out"),
        pytest.param(lambda pod: pod.running(seconds=195), id="it has only just come"),
    ],
)
def test_not_if(change: Any) -> None:
    assert silent(told(30), change=change) == {}


def test_an_old_report_says_nothing_of_now() -> None:
    assert silent(told(30), now=TOLD_AT + 15)
    assert silent(told(30), now=TOLD_AT + 16) == {}
    assert silent(told(30, at_second=None)) == {}


def test_whom_the_job_does_not_have_is_nobody() -> None:
    assert silent(told(30, "worker-7")) == {}
    assert silent(told(30, "nonsense")) == {}


def test_a_gang_restarts_as_a_whole() -> None:
    assert silent(told(30), job=a_job().mirrored(workers=2)) == {}
