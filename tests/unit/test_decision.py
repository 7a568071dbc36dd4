"""What becomes of a job: every branch, in the order in which they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Disruption
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.decide import decide
from tftraining_operator.core.decision import Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.progress import Report

from tests.unit.builders import JobBuilder, PodBuilder, a_condition, a_job, a_pod, at, seen, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.core.decision import Decision

RUNS = a_condition(ConditionType.RUNNING)
RAN = {"first_running_time": stamp(), "chief_uid": "uid-of-mnist-chief-0"}


def reported(now: float, **fields: object) -> Facts:
    """What a chief that reports just now says."""
    report = Report.model_validate({"received": at(now), **fields})
    return Facts(reports={Role.CHIEF: report})


def decided(
    job: JobBuilder,
    chief: PodBuilder | None = None,
    *others: PodBuilder,
    now: float = 0,
    facts: Facts | None = None,
) -> Decision:
    built = job.build()
    pods = [chief or a_pod(built, Role.CHIEF).running(), *others]
    return decide(built, seen(built, *pods), facts or Facts(), at(now))


def a_chief(job: JobBuilder | None = None) -> PodBuilder:
    return a_pod((job or a_job()).build(), Role.CHIEF)


def test_a_job_that_runs_stays_active() -> None:
    found = decided(a_job().with_status(RUNS))
    assert (found.phase, found.attempt, found.restarts) == (Phase.ACTIVE, 0, 0)


@pytest.mark.parametrize(
    ("job", "chief", "phase", "reason"),
    [
        pytest.param(a_job(), a_chief().exited(0), Phase.SUCCEEDED, "ChiefSucceeded", id="exit 0"),
        pytest.param(a_job(), a_chief().exited(64), Phase.FAILED, "PermanentFailure", id="exit 64"),
        pytest.param(a_job(), a_chief().exited(77), Phase.FAILED, "Diverged", id="it diverged"),
        pytest.param(
            a_job().with_role("chief", restartPolicy="Never"),
            a_chief().exited(1),
            Phase.FAILED,
            "PodFailed",
            id="exit 1 where nothing is restarted",
        ),
        pytest.param(
            a_job().with_policy(backoffLimit=0),
            a_chief().exited(1),
            Phase.FAILED,
            "BackoffLimitExceeded",
            id="exit 1 with a backoffLimit of 0",
        ),
        pytest.param(a_job(), a_chief().exited(1), Phase.ACTIVE, "ChiefFailed", id="exit 1"),
        pytest.param(a_job(), a_chief().exited(75), Phase.ACTIVE, "ParameterServerLost", id="75"),
        pytest.param(a_job(), a_chief().exited(69), Phase.ACTIVE, "PeersUnavailable", id="69"),
        pytest.param(a_job(), a_chief().exited(74), Phase.ACTIVE, "CheckpointUnavailable", id="74"),
        pytest.param(a_job(), a_chief().exited(76), Phase.ACTIVE, "Stalled", id="76"),
        pytest.param(
            a_job(), a_chief().exited(143).disrupted(), Phase.ACTIVE, "Disrupted", id="disrupted"
        ),
        pytest.param(
            a_job().with_policy(suspend=True),
            a_chief().running(),
            Phase.SUSPENDED,
            "Suspended",
            id="suspend",
        ),
        pytest.param(
            a_job().with_policy(suspend=True),
            a_chief().exited(64),
            Phase.SUSPENDED,
            "Suspended",
            id="suspend comes before failure",
        ),
        pytest.param(
            a_job().with_policy(suspend=True),
            a_chief().exited(0),
            Phase.SUCCEEDED,
            "ChiefSucceeded",
            id="success comes before suspend",
        ),
    ],
)
def test_the_chief_decides(job: JobBuilder, chief: PodBuilder, phase: Phase, reason: str) -> None:
    found = decided(job, chief)
    assert (found.phase, found.reason) == (phase, reason)


def test_success_comes_before_any_failure_or_deadline() -> None:
    job = a_job().with_policy(activeDeadlineSeconds=1, backoffLimit=0).with_status(RUNS)
    lost = a_pod(job.build(), Role.WORKER).exited(64)
    assert decided(job, a_chief().exited(0), lost, now=100).phase is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("limit", "before", "phase", "restarts"),
    [
        pytest.param(0, 0, Phase.FAILED, 0, id="none is allowed"),
        pytest.param(1, 0, Phase.ACTIVE, 1, id="the only one"),
        pytest.param(1, 1, Phase.FAILED, 1, id="one too many"),
        pytest.param(3, 2, Phase.ACTIVE, 3, id="the last of three"),
        pytest.param(3, 3, Phase.FAILED, 3, id="a fourth of three"),
    ],
)
def test_the_backoff_limit_is_exact(limit: int, before: int, phase: Phase, restarts: int) -> None:
    job = a_job().with_policy(backoffLimit=limit).with_status(restarts=before)
    found = decided(job, a_chief().exited(1, "boom"))
    assert (found.phase, found.restarts) == (phase, restarts)
    assert "mnist-chief-0 exited with 1: boom" in found.message
    assert (found.restart is not None) == (phase is Phase.ACTIVE)


def test_a_restart_says_how_many_are_left() -> None:
    found = decided(
        a_job().with_status(restarts=1, attempt=4),
        a_pod(a_job().with_status(attempt=4).build(), Role.CHIEF).exited(75),
    )
    assert (found.attempt, found.restarts) == (5, 2)
    assert found.message.endswith("restart 2 of 3")


def test_a_disruption_is_a_new_attempt_that_is_not_counted() -> None:
    job = a_job().with_policy(backoffLimit=0).with_status(attempt=0)
    found = decided(job, a_chief().exited(143).disrupted())
    assert (found.attempt, found.restarts) == (1, 0)


def test_a_chief_that_is_being_deleted_is_waited_for() -> None:
    found = decided(a_job().with_status(RUNS), a_chief().exited(143).deleting())
    assert (found.phase, found.attempt) == (Phase.ACTIVE, 0)


@pytest.mark.parametrize("role", [Role.WORKER, Role.PS])
def test_a_lost_server_changes_no_attempt(role: Role) -> None:
    job = a_job().with_status(RUNS)
    found = decided(job, None, a_pod(job.build(), role).exited(137))
    assert (found.phase, found.attempt, found.restarts) == (Phase.ACTIVE, 0, 0)


def test_a_failed_worker_of_a_gang_is_named() -> None:
    job = a_job().mirrored(workers=2)
    found = decided(job, None, a_pod(job.build(), Role.WORKER, 1).exited(1))
    assert (found.attempt, found.restarts, found.reason) == (1, 1, "WorkerFailed")
    assert found.message.startswith("mnist-worker-1 exited with 1")


def test_many_failed_pods_of_a_gang_are_one_restart() -> None:
    job = a_job().mirrored(workers=2)
    workers = [a_pod(job.build(), Role.WORKER, i).exited(1) for i in range(2)]
    found = decided(job, a_pod(job.build(), Role.CHIEF).exited(1), *workers)
    assert (found.attempt, found.restarts) == (1, 1)


@pytest.mark.parametrize(
    ("job", "now", "reason"),
    [
        pytest.param(
            a_job().with_policy(activeDeadlineSeconds=60).with_status(RUNS),
            60,
            "DeadlineExceeded",
            id="active",
        ),
        pytest.param(a_job().with_status(), 600, "StartupDeadlineExceeded", id="startup"),
    ],
)
def test_a_deadline_ends_the_job_to_the_second(job: JobBuilder, now: float, reason: str) -> None:
    chief = a_chief().running(ready=reason == "DeadlineExceeded")
    early = decided(job, chief, now=now - 1)
    assert early.phase is Phase.ACTIVE
    assert early.look_again == at(now)
    found = decided(job, chief, now=now)
    assert (found.phase, found.reason) == (Phase.FAILED, reason)


def test_a_suspended_job_has_no_deadline() -> None:
    job = a_job().with_policy(activeDeadlineSeconds=60, suspend=True).with_status(RUNS)
    assert decided(job, now=1e6).phase is Phase.SUSPENDED


def test_a_failed_start_names_who_is_missing() -> None:
    job = a_job().with_workers(2).with_status()
    built = job.build()
    ready = a_pod(built, Role.WORKER, 0).running()
    found = decided(job, a_pod(built, Role.CHIEF).running(ready=False), ready, now=600)
    assert "not running within startupDeadlineSeconds (600 s)" in found.message
    for name in ("mnist-ps-0", "mnist-worker-1", "mnist-chief-0"):
        assert name in found.message
    assert "mnist-worker-0" not in found.message


def test_a_failed_start_says_the_cause() -> None:
    job = a_job().with_status()
    ps = a_pod(job.build(), Role.PS).unschedulable()
    found = decided(job, a_chief().running(ready=False), ps, now=600)
    assert found.message.endswith("mnist-ps-0: Unschedulable: 0/3 nodes are available")


def test_no_step_for_too_long_is_a_counted_restart() -> None:
    job = a_job().with_policy(stallTimeoutSeconds=60).with_status(RUNS, **RAN)
    early = decided(job, now=69, facts=reported(69, step=7, seconds_since_step=59))
    assert (early.restarts, early.look_again) == (0, None)
    found = decided(job, now=70, facts=reported(70, step=7, seconds_since_step=60))
    assert (found.phase, found.reason, found.restarts) == (Phase.ACTIVE, "Stalled", 1)


def test_the_last_stall_fails_the_job() -> None:
    policy = {"stallTimeoutSeconds": 60, "backoffLimit": 0}
    job = a_job().with_policy(**policy).with_status(RUNS, **RAN)
    found = decided(job, now=60, facts=reported(60, step=7, seconds_since_step=60))
    assert (found.phase, found.reason) == (Phase.FAILED, "BackoffLimitExceeded")
    assert "stallTimeoutSeconds (60 s)" in found.message


@pytest.mark.parametrize(
    ("evaluator", "now", "phase", "reason"),
    [
        pytest.param(PodBuilder.running, 30, Phase.EVALUATING, "Evaluating", id="in its grace"),
        pytest.param(PodBuilder.running, 120, Phase.SUCCEEDED, "NotEvaluated", id="too late"),
        pytest.param(
            lambda p: p.exited(0), 30, Phase.SUCCEEDED, "ChiefSucceeded", id="the evaluator is done"
        ),
        pytest.param(
            lambda p: p.exited(64), 30, Phase.SUCCEEDED, "NotEvaluated", id="the evaluator cannot"
        ),
    ],
)
def test_after_the_chief_the_evaluator(
    evaluator: Callable[[PodBuilder], PodBuilder], now: float, phase: Phase, reason: str
) -> None:
    job = a_job().with_evaluator().with_status(RUNS, chief_completion_time=stamp())
    built = job.build()
    pod = evaluator(a_pod(built, Role.EVALUATOR))
    found = decided(job, a_pod(built, Role.CHIEF).exited(0), pod, now=now)
    assert (found.phase, found.reason) == (phase, reason)
    assert found.chief_completed == at(0)
    assert found.look_again == (at(120) if phase is Phase.EVALUATING else None)


def test_a_pod_that_may_only_be_slow_wakes_the_operator_once_it_is_too_slow() -> None:
    job = a_job().with_status().build()
    chief = a_pod(job, Role.CHIEF).condition("PodScheduled", value=True, lastTransitionTime=stamp())
    chief.condition("PodReadyToStartContainers", value=False)
    found = decide(job, seen(job, chief, now=at(5)), Facts(), at(5))
    assert found.look_again == at(10)


def test_servers_end_once_it_is_stored_that_the_chief_has_succeeded() -> None:
    """Else an operator that ends in between would take them for lost."""
    job = a_job().with_evaluator().with_status(RUNS)
    built = job.build()
    others = [a_pod(built, role).running() for role in (Role.WORKER, Role.PS, Role.EVALUATOR)]
    first = decided(job, a_chief(job).exited(0), *others)
    assert (first.phase, first.chief_completed) == (Phase.EVALUATING, at(0))
    assert first.removals == first.creations == ()
    job.with_status(RUNS, chief_completion_time=stamp())
    then = decided(job, a_chief(job).exited(0), *others)
    assert {removal.pod.role for removal in then.removals} == {Role.WORKER, Role.PS}


def test_a_server_that_has_failed_is_left_for_its_log_once_the_chief_has_succeeded() -> None:
    job = a_job().with_evaluator().with_status(RUNS, chief_completion_time=stamp())
    built = job.build()
    failed = a_pod(built, Role.WORKER).exited(1)
    found = decided(job, a_chief(job).exited(0), failed, now=100)
    assert found.removals == found.announced == ()


@pytest.mark.parametrize("clock", [-600, 0, 600], ids=["behind", "right", "ahead"])
def test_the_evaluators_grace_does_not_depend_on_a_nodes_clock(clock: float) -> None:
    job = a_job().with_evaluator().with_status(RUNS)
    built = job.build()
    chief = a_pod(built, Role.CHIEF).exited(0, seconds=700 + clock)
    found = decided(job, chief, a_pod(built, Role.EVALUATOR).running(), now=700)
    assert (found.phase, found.chief_completed) == (Phase.EVALUATING, at(700))
    assert found.look_again == at(820)


@pytest.mark.parametrize("end", [ConditionType.SUCCEEDED, ConditionType.FAILED])
@pytest.mark.parametrize(
    "chief",
    [
        pytest.param(a_chief().exited(0), id="exit 0"),
        pytest.param(a_chief().exited(64), id="exit 64"),
        pytest.param(a_chief().running(), id="running"),
    ],
)
def test_an_end_is_for_ever(end: ConditionType, chief: PodBuilder) -> None:
    ends = (a_condition(end), a_condition(ConditionType.FINISHED))
    job = a_job().with_status(*ends, restarts=2, completion_time=stamp())
    found = decided(job.with_policy(backoffLimit=9, suspend=True), chief, now=1e6)
    assert (found.phase, found.attempt, found.restarts) == (Phase.FINISHED, 0, 2)


def test_an_ended_job_wakes_when_it_expires() -> None:
    job = a_job().with_policy(ttlSecondsAfterFinished=60)
    ends = (a_condition(ConditionType.FAILED), a_condition(ConditionType.FINISHED))
    job.with_status(*ends, completion_time=stamp(5))
    assert decided(job).look_again == at(65)


@pytest.mark.parametrize(
    ("chief", "undeletable", "deleted"),
    [
        pytest.param(a_chief().running(), {}, False, id="its chief is to end"),
        pytest.param(a_chief().running().deleting(), {}, False, id="its chief saves"),
        pytest.param(a_chief().exited(143), {}, True, id="its chief has ended"),
        pytest.param(
            a_chief().running(),
            {"mnist-chief-0": Cause("DeletionRefused")},
            True,
            id="its chief may not be deleted",
        ),
    ],
)
def test_an_expired_job_is_deleted_once_its_chief_has_saved(
    chief: PodBuilder, undeletable: dict[str, Cause], *, deleted: bool
) -> None:
    job = a_job().with_policy(ttlSecondsAfterFinished=0)
    ends = (a_condition(ConditionType.FAILED), a_condition(ConditionType.FINISHED))
    job.with_status(*ends, completion_time=stamp(5))
    server = a_pod(job.build(), Role.PS).running()
    found = decided(job, chief, server, now=5, facts=Facts(undeletable=undeletable))
    assert found.delete_job is deleted
    assert all(removal.pod.role is Role.CHIEF for removal in found.removals), "the ps serves it"


def test_a_chief_whose_ps_was_drained_restarts_without_being_counted() -> None:
    job = a_job().with_status(RUNS)
    drained = a_pod(job.build(), Role.PS).running().disrupted()
    found = decided(job, a_chief().exited(75), drained)
    assert (found.reason, found.attempt, found.restarts) == ("Disrupted", 1, 0)


@pytest.mark.parametrize(
    ("announced", "restarts"),
    [
        pytest.param(50, 0, id="in this chief's life: the ps is gone by now"),
        pytest.param(10, 1, id="before this chief was made"),
    ],
)
def test_what_was_disrupted_is_remembered(announced: float, restarts: int) -> None:
    last = Disruption(role="ps", pod="mnist-ps-0", reason="Evicted", time=stamp(announced))
    job = a_job().with_status(RUNS, last_disruption=last)
    found = decided(job, a_chief().exited(75).made(20))
    assert found.restarts == restarts
    assert ("mnist-ps-0 was disrupted" in found.message) is (restarts == 0)


def test_a_drained_worker_does_not_excuse_the_chief() -> None:
    job = a_job().with_status(RUNS)
    drained = a_pod(job.build(), Role.WORKER).running().disrupted()
    assert decided(job, a_chief().exited(1), drained).restarts == 1


def test_a_drained_member_excuses_its_gang() -> None:
    job = a_job().mirrored(workers=2).with_status(RUNS)
    drained = a_pod(job.build(), Role.WORKER, 1).running().disrupted()
    found = decided(job, a_pod(job.build(), Role.CHIEF).exited(69), drained)
    assert (found.reason, found.restarts) == ("Disrupted", 0)


def test_a_chief_that_its_node_does_not_end_is_given_up() -> None:
    job = a_job().with_status(RUNS)
    waits = decided(job, a_chief().running(ready=False).deleting(), now=104)
    assert (waits.attempt, waits.look_again) == (0, at(105))
    found = decided(job, a_chief().running().deleting(), now=105)
    assert (found.reason, found.attempt, found.restarts) == ("NodeLost", 1, 0)
    stored = decided(a_job().with_status(RUNS, attempt=1), a_chief().running().deleting(), now=105)
    assert stored.attempt == 1, "it is given up once"


def test_a_new_attempt_keeps_the_cluster_that_it_has() -> None:
    job = a_job().with_role("worker", replicas=2, minReplicas=1)
    job.with_status(RUNS, excluded_workers=[1])
    found = decided(job, a_pod(job.build(), Role.CHIEF).exited(75))
    assert found.membership.excluded == (1,)
    assert found.membership.change(job.build()) is None


@pytest.mark.parametrize(
    ("age", "wake"),
    [
        pytest.param({"seconds_since_step": 20}, None, id="a report tells of it"),
        pytest.param({}, 90, id="nobody else tells of it"),
    ],
)
def test_silence_wakes(age: dict[str, float], wake: float | None) -> None:
    job = a_job().with_status(RUNS, **RAN)
    found = decided(job, now=30, facts=reported(30, step=7, **age))
    assert found.look_again == (None if wake is None else at(wake))
