"""Which pods end the job, which end its attempt, which are stale and which are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import Disruption
from tftraining_operator.core.policies import failure

from tests.unit.builders import JobBuilder, PodBuilder, a_job, a_pod, seen, stamp

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("role", "policy", "state", "ends"),
    [
        pytest.param(Role.CHIEF, "ExitCode", lambda p: p.exited(64), True, id="bad configuration"),
        pytest.param(Role.CHIEF, "ExitCode", lambda p: p.exited(127), True, id="no such command"),
        pytest.param(Role.CHIEF, "ExitCode", lambda p: p.exited(1), False, id="exit code 1"),
        pytest.param(Role.CHIEF, "ExitCode", lambda p: p.exited(75), False, id="a ps was lost"),
        pytest.param(Role.CHIEF, "OnFailure", lambda p: p.exited(64), False, id="OnFailure"),
        pytest.param(Role.CHIEF, "Never", lambda p: p.exited(1), True, id="Never"),
        pytest.param(
            Role.WORKER, "ExitCode", lambda p: p.exited(64), True, id="a worker's configuration"
        ),
        pytest.param(Role.WORKER, "ExitCode", lambda p: p.exited(137), False, id="a worker's OOM"),
        pytest.param(Role.WORKER, "Never", lambda p: p.exited(137), True, id="a worker, Never"),
        pytest.param(
            Role.PS,
            "ExitCode",
            lambda p: p.restarted_in_place(64).running(ready=False),
            False,
            id="what is not known to have failed",
        ),
        pytest.param(
            Role.PS,
            "ExitCode",
            lambda p: p.waiting(
                "CrashLoopBackOff", lastState={"terminated": {"exitCode": 64, "reason": "Error"}}
            ),
            True,
            id="a ps that the kubelet restarts in vain",
        ),
        pytest.param(
            Role.PS, "ExitCode", lambda p: p.restarted_in_place(64), False, id="a ps that recovered"
        ),
        pytest.param(
            Role.CHIEF, "ExitCode", lambda p: p.exited(64).disrupted(), False, id="disrupted"
        ),
        pytest.param(
            Role.CHIEF, "Never", lambda p: p.exited(143).deleting(), False, id="being deleted"
        ),
    ],
)
def test_fatal(
    role: Role, policy: str, state: Callable[[PodBuilder], PodBuilder], *, ends: bool
) -> None:
    job = a_job().with_role(role.value, restartPolicy=policy).build()
    found = failure.fatal(job, seen(job, state(a_pod(job, role))))
    assert (found is not None) == ends


@pytest.mark.parametrize("role", [Role.CHIEF, Role.WORKER])
@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_command_that_no_node_could_start_is_fatal_but_not_one_that_others_have_run(
    role: Role, reason: str
) -> None:
    for has_run in (False, True):
        started = {"first_running_time": stamp(-60)} if has_run else {}
        job = a_job().with_status(cluster_workers=2, **started).build()
        pod = a_pod(job, role).exited(128, reason=reason)
        assert (failure.fatal(job, seen(job, pod)) is None) == has_run


def test_a_wrong_configuration_is_fatal_also_where_others_have_run() -> None:
    job = a_job().with_status(first_running_time=stamp(-60)).build()
    assert failure.fatal(job, seen(job, a_pod(job, Role.CHIEF).exited(64))) is not None


def test_an_evaluator_is_never_fatal() -> None:
    job = a_job().with_evaluator().with_role("evaluator", restartPolicy="Never").build()
    assert failure.fatal(job, seen(job, a_pod(job, Role.EVALUATOR).exited(64))) is None


def test_a_worker_beyond_the_wanted_number_is_not_fatal() -> None:
    before = a_job().with_workers(3).build()
    now = a_job().with_workers(2).build()
    assert failure.fatal(now, seen(now, a_pod(before, Role.WORKER, 2).exited(64))) is None


@pytest.mark.parametrize(
    ("job", "role", "ends"),
    [
        pytest.param(a_job(), Role.CHIEF, True, id="the chief"),
        pytest.param(a_job(), Role.WORKER, False, id="a worker is replaced alone"),
        pytest.param(a_job(), Role.PS, False, id="a ps is replaced, the chief tells of its loss"),
        pytest.param(a_job().mirrored(workers=2), Role.WORKER, True, id="a worker of a gang"),
        pytest.param(a_job().with_evaluator(), Role.EVALUATOR, False, id="an evaluator"),
    ],
)
def test_attempt_failure(job: JobBuilder, role: Role, *, ends: bool) -> None:
    built = job.build()
    found = failure.attempt_failure(built, seen(built, a_pod(built, role).exited(1)))
    assert (found is not None) == ends


@pytest.mark.parametrize(
    "chief",
    [
        pytest.param(lambda p: p.exited(143).deleting(), id="deleted, by us or by somebody"),
        pytest.param(lambda p: p.running(), id="running"),
        pytest.param(lambda p: p.exited(0), id="ended well"),
    ],
)
def test_no_attempt_failure(chief: Callable[[PodBuilder], PodBuilder]) -> None:
    job = a_job().build()
    assert failure.attempt_failure(job, seen(job, chief(a_pod(job, Role.CHIEF)))) is None


@pytest.mark.parametrize("last", [1, 137])
def test_of_a_gang_the_member_ended_the_attempt_that_did_not_end_for_another(last: int) -> None:
    job = a_job().mirrored(workers=3).build()
    ends = {(Role.CHIEF, 0): 69, (Role.WORKER, 0): 69, (Role.WORKER, 1): last}
    pods = [a_pod(job, role, index).exited(code) for (role, index), code in ends.items()]
    found = failure.attempt_failure(job, seen(job, *pods))
    assert found is not None
    assert found.name == "mnist-worker-1"


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_pods_that_are_drained_at_once_it_is_the_chief_however_they_are_listed(
    *, turned: bool
) -> None:
    job = a_job().with_status().build()
    pods = [a_pod(job, role).running().disrupted(5) for role in (Role.PS, Role.CHIEF)]
    found = failure.newest_disruption(job, seen(job, *pods[:: -1 if turned else 1]))
    assert found is not None
    assert found.pod == "mnist-chief-0"


@pytest.mark.parametrize(("born", "newest"), [(0, "mnist-ps-0"), (7, "mnist-worker-0")])
def test_a_drained_ps_excuses_its_chief_though_a_worker_is_drained_after_it(
    born: float, newest: str
) -> None:
    ps = Disruption(role="ps", pod="mnist-ps-0", reason="Drained", time=stamp(5))
    job = a_job().with_status(last_disruption=ps).build()
    chief = a_pod(job, Role.CHIEF).running().made(born)
    worker = a_pod(job, Role.WORKER).running().disrupted(9)
    found = failure.newest_disruption(job, seen(job, chief, worker))
    assert found is not None
    assert found.pod == newest, "that of before the chief concerns another one"


def test_a_chief_of_an_older_attempt_has_been_counted() -> None:
    job = a_job().with_status(attempt=1, restarts=1).build()
    observed = seen(job, a_pod(job, Role.CHIEF, attempt=0).exited(1))
    assert failure.attempt_failure(job, observed) is None


@pytest.mark.parametrize(
    ("job", "pod", "stale"),
    [
        pytest.param(a_job(), a_pod(a_job().build(), Role.CHIEF), False, id="of this attempt"),
        pytest.param(
            a_job().with_status(attempt=1),
            a_pod(a_job().build(), Role.CHIEF, attempt=0),
            True,
            id="a chief of an older attempt",
        ),
        pytest.param(
            a_job().with_status(attempt=1),
            a_pod(a_job().build(), Role.WORKER, attempt=0),
            False,
            id="a worker serves every attempt",
        ),
        pytest.param(
            a_job().mirrored(workers=2).with_status(attempt=1),
            a_pod(a_job().mirrored(workers=2).build(), Role.WORKER, attempt=0),
            True,
            id="a mirrored worker is of one attempt",
        ),
    ],
)
def test_is_stale(job: JobBuilder, pod: PodBuilder, *, stale: bool) -> None:
    built = job.build()
    (found,) = seen(built, pod).pods.values()
    assert failure.is_stale(built, found) == stale


def test_a_pod_that_is_to_join_a_gang_ends_no_attempt() -> None:
    job = a_job().mirrored(workers=3).with_status(cluster_workers=2).build()
    joining = a_pod(job, Role.WORKER, 2).exited(69)
    assert failure.attempt_failure(job, seen(job, joining)) is None
    assert failure.fatal(job, seen(job, a_pod(job, Role.WORKER, 2).exited(64))) is None


def test_what_a_member_failed_with_comes_before_what_others_say_of_its_loss() -> None:
    job = a_job().mirrored(workers=2).build()
    lost = [a_pod(job, Role.CHIEF).exited(69), a_pod(job, Role.WORKER, 0).exited(69)]
    observed = seen(job, *lost, a_pod(job, Role.WORKER, 1).exited(1, "ValueError: no such file"))

    found = failure.attempt_failure(job, observed)
    assert found is not None
    assert (found.role, found.index) == (Role.WORKER, 1)
