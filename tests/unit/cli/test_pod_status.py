"""The status of a process, as the operator's core reads it of a pod."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tftraining.cli.local import pod_status
from tftraining.cli.local.commands import TRAINER_IMAGE
from tftraining.cli.local.pod_status import Ended, Life
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.observed import Pod, parse_pod

from tests.unit.builders import NOW, a_job, at, stamp

JOB = a_job().with_evaluator().build()
RUNS = Life(NOW, running_since=NOW)


def ended(code: int, message: str = "", *, seconds: float = 60) -> Ended:
    return Ended(code, message, NOW, at(seconds))


def read(life: Life, role: Role = Role.CHIEF) -> Pod:
    raw = desired.pod(JOB, role, 0, 0, TRAINER_IMAGE)
    policy = raw["spec"]["restartPolicy"]
    raw_pod = {
        **raw,
        "metadata": raw["metadata"] | pod_status.metadata(life),
        "status": pod_status.status(life, policy),
    }
    found = parse_pod(JOB, raw_pod, at(86_400))
    assert found is not None
    return found


def test_a_running_process_is_active_and_not_ready_yet() -> None:
    pod = read(RUNS)
    assert (pod.phase, pod.active, pod.runs, pod.ready) == ("Running", True, True, False)
    assert pod.created_at == stamp()


def test_a_process_is_ready_since_its_port_opened() -> None:
    pod = read(Life(NOW, running_since=NOW, ready_since=at(3)))
    assert (pod.ready, pod.ready_since) == (True, stamp(3))


def test_a_chief_that_exited_with_0_has_succeeded_with_its_termination_message() -> None:
    pod = read(Life(NOW, ended=ended(0, '{"step": 3}')))
    assert (pod.succeeded, pod.finished_at, pod.termination_message) == (
        True,
        stamp(60),
        '{"step": 3}',
    )
    assert pod.failure is None


def test_a_chief_that_failed_stays_failed_with_its_cause() -> None:
    pod = read(Life(NOW, ended=ended(75, "a ps was lost")))
    assert pod.failed
    assert pod.failure is not None
    assert (pod.failure.exit_code, pod.failure.message) == (75, "a ps was lost")


def test_a_failed_server_is_restarted_in_place_and_not_replaced() -> None:
    pod = read(Life(NOW, ended=ended(137)), Role.WORKER)
    assert (pod.failed, pod.active, pod.runs, pod.ready) == (False, True, False, False)
    assert pod.failure is not None
    assert pod.startup_problem is not None
    assert pod.startup_problem.reason == "CrashLoopBackOff"


def test_a_restarted_server_has_its_last_failure() -> None:
    pod = read(Life(NOW, running_since=at(61), ended=ended(137), restarts=1), Role.WORKER)
    assert pod.runs
    assert pod.failure is not None
    assert pod.startup_problem is None


def test_a_deleted_pod_has_the_end_of_its_grace_period() -> None:
    assert read(Life(NOW, running_since=NOW, deleted_until=at(30))).grace_ends == stamp(30)


@pytest.mark.parametrize(
    ("policy", "code", "restarted"),
    [
        pytest.param("Always", 0, True, id="a server that exited with 0"),
        pytest.param("Always", 1, True, id="a server that failed"),
        pytest.param("OnFailure", 1, True, id="an evaluator that failed"),
        pytest.param("OnFailure", 0, False, id="an evaluator that succeeded"),
        pytest.param("Never", 1, False, id="a chief"),
    ],
)
def test_the_restart_policy_decides_about_a_restart_in_place(
    policy: str, code: int, *, restarted: bool
) -> None:
    assert pod_status.is_restarted(policy, ended(code)) is restarted


def test_restarts_of_a_crash_loop_are_delayed() -> None:
    waits = [pod_status.pause(deaths).total_seconds() for deaths in range(1, 8)]
    assert waits == [0, 1, 2, 4, 8, 10, 10]
    assert pod_status.pause(10_000) == timedelta(seconds=10)
    assert ended(1, seconds=10).ran_well
    assert not ended(1, seconds=9).ran_well
