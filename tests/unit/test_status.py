"""The whole status, computed from spec, pods, previous status and the moment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Condition, ConditionStatus, Failure, Progress, Status
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.conditions import find, is_true
from tftraining_operator.core.decide import decide
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.progress import PeerCause, Report, UnreachablePeer
from tftraining_operator.core.status import compute_status, rejected_status

from tests.unit.builders import (
    IMAGE,
    JobBuilder,
    PodBuilder,
    a_condition,
    a_job,
    a_pod,
    at,
    seen,
    stamp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NOTHING = Facts()
T = ConditionType


def status_of(job: JobBuilder, *pods: PodBuilder, now: float = 0, facts: Facts = NOTHING) -> Status:
    built = job.build()
    observed = seen(built, *pods)
    decision = decide(built, observed, facts, at(now))
    return compute_status(built, observed, decision, facts, at(now), trainer_image=IMAGE)


def everything(job: JobBuilder, **states: Callable[[PodBuilder], PodBuilder]) -> list[PodBuilder]:
    """All pods ready, but those named, as in chief_0=…: these are what is said of them."""
    built = job.build()
    return [
        states.get(f"{role.value}_{index}", PodBuilder.running)(a_pod(built, role, index))
        for role in Role
        for index in range(built.desired(role))
    ]


def condition(status: Status, kind: ConditionType) -> Condition:
    found = find(status.conditions, kind)
    assert found is not None
    return found


def stored(job: JobBuilder, status: Status) -> JobBuilder:
    job.raw["status"] = status.as_dict()
    return job


def running(job: JobBuilder) -> JobBuilder:
    """A job that has come to run, at NOW."""
    return stored(job, status_of(job, *everything(job)))


def test_the_first_status_says_what_there_is_to_say() -> None:
    status = status_of(a_job())
    assert [c.type for c in status.conditions] == [
        T.ACCEPTED,
        T.PODS_READY,
        T.RUNNING,
        T.FINISHED,
    ]
    assert {c.observed_generation for c in status.conditions} == {1}
    assert (status.observed_generation, status.start_time) == (1, stamp())
    true = {c.type for c in status.conditions if c.status == "True"}
    assert true == {T.ACCEPTED.value}


def test_a_running_job() -> None:
    status = status_of(a_job().with_workers(2), *everything(a_job().with_workers(2)))
    true = {c.type for c in status.conditions if c.status == "True"}
    assert true == {"Accepted", "PodsReady", "Running"}
    assert status.state == "Running"
    assert condition(status, T.PODS_READY).message == "4 of 4 pods are ready"
    assert status.replicas is not None
    assert (status.replicas.chief, status.replicas.worker, status.replicas.ps) == (
        "1/1",
        "2/2",
        "1/1",
    )
    assert status.worker_replicas == 2


STATES: list[Any] = [
    pytest.param(a_job, {}, id="all ready"),
    pytest.param(a_job, {"worker_0": lambda p: p.evicted()}, id="a worker is evicted"),
    pytest.param(a_job, {"worker_0": lambda p: p.restarted_in_place(137)}, id="restarted in place"),
    pytest.param(a_job, {"ps_0": lambda p: p.running().deleting()}, id="a ps is deleted"),
    pytest.param(a_job, {"chief_0": lambda p: p.running(ready=False)}, id="the chief connects"),
    pytest.param(a_job, {"chief_0": lambda p: p.running().deleting()}, id="the chief is deleted"),
    pytest.param(a_job, {"chief_0": lambda p: p.waiting("ErrImagePull")}, id="an image is missing"),
    pytest.param(
        a_job,
        {"ps_0": lambda p: p.unschedulable(), "worker_0": lambda p: p.unschedulable()},
        id="two pods find no node",
    ),
    pytest.param(lambda: a_job().with_policy(suspend=True), {}, id="suspended"),
    pytest.param(
        lambda: a_job().with_policy(backoffLimit=0), {"chief_0": lambda p: p.exited(1)}, id="failed"
    ),
    pytest.param(a_job, {"chief_0": lambda p: p.exited(0)}, id="succeeded"),
    pytest.param(
        lambda: a_job().with_evaluator(), {"chief_0": lambda p: p.exited(0)}, id="evaluating"
    ),
]


@pytest.mark.parametrize(("job", "states"), STATES)
def test_nothing_new_gives_an_equal_status(job: Callable[[], JobBuilder], states: Any) -> None:
    built = job()
    pods = everything(built, **states)
    first = status_of(stored(built, status_of(built, *pods)), *pods, now=1)
    first = status_of(stored(built, first), *pods, now=20)
    second = status_of(stored(built, first), *pods, now=50)
    assert second.as_dict() == first.as_dict()


@pytest.mark.parametrize(("job", "states"), STATES)
def test_a_status_fits_the_crd_and_never_says_both_ends(
    job: Callable[[], JobBuilder], states: Any
) -> None:
    built = running(job())
    status = status_of(built, *everything(built, **states))
    assert Status.model_validate_json(json.dumps(status.as_dict())) == status
    assert not (is_true(status, T.SUCCEEDED) and is_true(status, T.FAILED))
    assert is_true(status, T.FINISHED) == (
        is_true(status, T.SUCCEEDED) or is_true(status, T.FAILED)
    )


# PodsReady, Running and the headline.

NO_NODE = "mnist-ps-0: 0/3 nodes are available"


@pytest.mark.parametrize(
    ("states", "facts", "reason", "message"),
    [
        pytest.param(
            {"worker_1": lambda p: p.running(ready=False)},
            NOTHING,
            "Starting",
            "3 of 4 pods are ready; waiting for mnist-worker-1",
            id="one is not ready",
        ),
        pytest.param(
            {"ps_0": lambda p: p.unschedulable(), "worker_0": lambda p: p.running(ready=False)},
            NOTHING,
            "Unschedulable",
            f"waiting since {stamp()} for a node: {NO_NODE}",
            id="the one with a cause is named",
        ),
        pytest.param(
            {"ps_0": lambda p: p.unschedulable(), "worker_0": lambda p: p.waiting("ErrImagePull")},
            NOTHING,
            "Unschedulable",
            f"waiting since {stamp()} for a node: {NO_NODE} (and 1 more pod)",
            id="and how many more",
        ),
        pytest.param(
            {
                "ps_0": lambda p: p.unschedulable().made(7),
                "worker_0": lambda p: p.unschedulable().made(3),
                "worker_1": lambda p: p.running(ready=False).made(1),
            },
            NOTHING,
            "Unschedulable",
            f"waiting since {stamp(3)} for a node: {NO_NODE} (and 1 more pod)",
            id="since when the first of them has no node",
        ),
        pytest.param(
            {"worker_0": lambda p: p.running(ready=False)},
            Facts(refused={"mnist-worker-0": Cause("QuotaExceeded", "exceeded quota: team-a")}),
            "QuotaExceeded",
            "mnist-worker-0: exceeded quota: team-a",
            id="a pod that quota refuses",
        ),
    ],
)
def test_who_is_not_ready_and_why(states: Any, facts: Facts, reason: str, message: str) -> None:
    job = a_job().with_workers(2)
    pods = everything(job, **states)
    found = condition(status_of(job, *pods, facts=facts), T.PODS_READY)
    assert (found.reason, found.message) == (reason, message)


def test_a_job_in_trouble_is_shown_by_its_trouble() -> None:
    job = a_job()
    pods = everything(
        job, chief_0=lambda p: p.running(ready=False), ps_0=lambda p: p.waiting("ErrImagePull")
    )
    status = status_of(job, *pods)
    assert status.state == "ImagePullBackOff"
    assert (status.message or "").startswith("mnist-ps-0: image ")


def test_a_job_that_runs_though_a_pod_has_trouble_names_the_reason() -> None:
    job = running(a_job().with_workers(2))
    pods = everything(job, worker_1=lambda p: p.waiting("ErrImagePull"))
    status = status_of(job, *pods, now=5)
    assert status.state == "Running"
    assert (status.message or "").startswith("ImagePullBackOff: mnist-worker-1: image ")


def test_a_job_that_runs_without_a_worker_runs_and_says_so() -> None:
    job = running(a_job().with_workers(2))
    status = status_of(job, *everything(job, worker_1=lambda p: p.evicted()), now=5)
    assert status.state == "Running"
    assert status.message == "3 of 4 pods are ready; waiting for mnist-worker-1"
    assert condition(status, T.PODS_READY).reason == "PodReplaced"
    assert condition(status, T.RUNNING).last_transition_time == stamp(0)


def test_a_chief_that_is_too_busy_for_a_probe_still_runs() -> None:
    job = running(a_job())
    assert (
        status_of(job, *everything(job, chief_0=lambda p: p.running(ready=False))).state
        == "Running"
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda p: p.running().deleting(), id="it is deleted"),
        pytest.param(lambda p: p.exited(1), id="it failed"),
    ],
)
def test_a_job_without_a_chief_does_not_run(change: Callable[[PodBuilder], PodBuilder]) -> None:
    job = running(a_job())
    status = status_of(job, *everything(job, chief_0=change), now=5)
    assert not is_true(status, T.RUNNING)
    assert condition(status, T.RUNNING).last_transition_time == stamp(5)


# Restarting and Stalled.


def test_restarting_lasts_until_the_next_chief_runs() -> None:
    job = running(a_job())
    failed = everything(job, chief_0=lambda p: p.exited(75, "UnavailableError"))
    status = status_of(job, *failed, now=10)
    assert (status.attempt, status.restarts, status.state) == (1, 1, "Restarting")
    assert condition(status, T.RESTARTING).reason == "ParameterServerLost"
    assert "UnavailableError" in (status.message or "")

    waits = status_of(stored(job, status), *everything(job)[:-1], now=20)
    assert is_true(waits, T.RESTARTING)
    assert waits.attempt == 1
    runs = status_of(stored(job, waits), *everything(job), now=30)
    assert (runs.state, runs.restarts) == ("Running", 1)
    assert not is_true(runs, T.RESTARTING)


def test_a_restarting_job_whose_pod_finds_no_node_says_so() -> None:
    job = running(a_job())
    failed = everything(job, chief_0=lambda p: p.exited(75, "UnavailableError"))
    job = stored(job, status_of(job, *failed, now=10))
    drained = "0/1 nodes are available: 1 node(s) were unschedulable"

    waits = status_of(job, *everything(job, chief_0=lambda p: p.unschedulable(drained)), now=20)

    assert is_true(waits, T.RESTARTING)
    assert waits.state == "Unschedulable"
    assert drained in (waits.message or "")


@pytest.mark.parametrize("reason", ["QuotaExceeded", "PodSecurity", "Refused", "InvalidPod"])
def test_a_restarting_job_whose_pod_is_refused_says_so(reason: str) -> None:
    job = running(a_job())
    failed = everything(job, chief_0=lambda p: p.exited(75, "UnavailableError"))
    job = stored(job, status_of(job, *failed, now=10))
    facts = Facts(refused={"mnist-chief-0": Cause(reason, "it may not be created")})

    waits = status_of(job, *everything(job)[:-1], now=20, facts=facts)

    assert is_true(waits, T.RESTARTING)
    assert (waits.state, waits.message) == (reason, "mnist-chief-0: it may not be created")


@pytest.mark.parametrize(
    ("pod", "word", "state"),
    [
        ("chief_0", "ErrImagePull", "ImagePullBackOff"),
        ("chief_0", "CreateContainerConfigError", "CreateContainerConfigError"),
        ("chief_0", "ContainerCreating", "Restarting"),
        ("worker_0", "CrashLoopBackOff", "NoWorkersAvailable"),
    ],
)
def test_a_restarting_job_whose_pod_cannot_start_says_so(pod: str, word: str, state: str) -> None:
    job = running(a_job())
    failed = everything(job, chief_0=lambda p: p.exited(75, "UnavailableError"))
    job = stored(job, status_of(job, *failed, now=10))

    waits = status_of(job, *everything(job, **{pod: lambda p: p.waiting(word)}), now=20)

    assert is_true(waits, T.RESTARTING)
    assert waits.state == state


def test_stalled_lasts_until_the_next_chief_runs() -> None:
    job = running(a_job().with_policy(stallTimeoutSeconds=60))
    facts = Facts(reports={Role.CHIEF: report(seconds_since_step=60, received=at(60))})
    status = status_of(job, *everything(job), now=60, facts=facts)
    assert is_true(status, T.STALLED)
    assert (status.restarts, condition(status, T.STALLED).reason) == (1, "NoNewStep")
    runs = status_of(stored(job, status), *everything(job), now=70)
    assert not is_true(runs, T.STALLED)


def test_a_stalled_job_that_is_suspended_is_not_stalled() -> None:
    job = running(a_job().with_policy(stallTimeoutSeconds=60))
    facts = Facts(reports={Role.CHIEF: report(seconds_since_step=60, received=at(60))})
    stored(job, status_of(job, *everything(job), now=60, facts=facts)).with_policy(suspend=True)
    assert not is_true(status_of(job, now=70), T.STALLED)


# Times.


def test_time_that_was_spent_is_kept_over_a_suspension() -> None:
    job = running(a_job())
    suspended = status_of(job.with_policy(suspend=True), now=100)
    assert (suspended.start_time, suspended.active_seconds) == (None, 100)
    assert suspended.state == "Suspended"
    assert condition(suspended, T.PODS_READY).reason == "Suspended"
    resumed = status_of(stored(job, suspended).with_policy(suspend=False), now=500)
    assert (resumed.start_time, resumed.active_seconds) == (stamp(500), 100)
    again = status_of(stored(job, resumed).with_policy(suspend=True), now=530)
    assert again.active_seconds == 130


def test_a_start_that_another_clock_calls_later_takes_nothing_from_the_time_spent() -> None:
    job = a_job().with_policy(suspend=True).with_status(start_time=stamp(100), active_seconds=7)
    assert status_of(job, now=40).active_seconds == 7


def test_a_success_is_dated_by_the_operators_clock() -> None:
    job = running(a_job())
    status = status_of(job, *everything(job, chief_0=lambda p: p.exited(0, seconds=90)), now=100)
    assert (status.chief_completion_time, status.completion_time) == (stamp(100), stamp(100))
    assert (status.state, status.message) == ("Succeeded", "the chief succeeded")
    assert condition(status, T.FINISHED).reason == "Succeeded"


def test_a_chief_that_is_done_leaves_the_evaluator_its_grace() -> None:
    job = running(a_job().with_evaluator())
    status = status_of(job, *everything(job, chief_0=lambda p: p.exited(0)), now=9)
    assert status.state == "Evaluating"
    assert (status.message or "").startswith("the chief succeeded; the evaluator")
    assert status.completion_time is None
    assert condition(status, T.PODS_READY).reason == "ChiefSucceeded"


# Counts.


def test_pods_are_counted_by_role() -> None:
    job = a_job().with_workers(4)
    pods = everything(
        job,
        worker_1=lambda p: p.evicted(),
        worker_2=lambda p: p.running().deleting(),
        worker_3=lambda p: p.running(ready=False),
    )
    status = status_of(job, *pods)
    (workers,) = [role for role in status.roles if role.name == "worker"]
    assert (workers.desired, workers.ready, workers.active, workers.failed) == (4, 1, 3, 1)
    assert [role.name for role in status.roles] == ["chief", "worker", "ps"]


@pytest.mark.parametrize("code", [0, 64])
def test_after_the_end_the_columns_say_how_it_was(code: int) -> None:
    job = running(a_job().with_workers(2))
    ended = status_of(job, *everything(job, chief_0=lambda p: p.exited(code)), now=5)
    later = status_of(stored(job, ended), now=50)
    assert later.replicas == ended.replicas
    assert ended.replicas is not None
    assert ended.replicas.worker == "2/2"
    assert later.conditions == ended.conditions
    assert later.completion_time == ended.completion_time
    assert later.worker_replicas == 0
    assert all(role.active == 0 for role in later.roles)


# Failures.


def test_the_first_failure_stays_and_the_last_is_the_newest() -> None:
    job = running(a_job())
    one = status_of(job, *everything(job, chief_0=lambda p: p.exited(1, "one", seconds=5)), now=6)
    stored(job, one)
    two = status_of(job, *everything(job, chief_0=lambda p: p.exited(75, "two", seconds=9)), now=10)
    assert two.first_failure is not None
    assert two.last_failure is not None
    assert two.first_failure == one.last_failure
    assert (two.first_failure.message, two.last_failure.message) == ("one", "two")
    assert two.last_failure == Failure(
        role="chief",
        index=0,
        pod="mnist-chief-0",
        node="node-1",
        reason="ExitCode",
        exit_code=75,
        message="two",
        time=stamp(9),
    )


def test_an_older_failure_is_not_the_last_again_when_the_newest_pod_is_gone() -> None:
    job = running(a_job().with_workers(2))
    pods = everything(
        job,
        worker_0=lambda p: p.restarted_in_place(1, "old", seconds=5),
        worker_1=lambda p: p.restarted_in_place(3, "new", seconds=50),
    )
    status = status_of(job, *pods, now=60)
    pods = everything(job, worker_0=lambda p: p.restarted_in_place(1, "old", seconds=5))
    later = status_of(stored(job, status), *pods, now=70)
    assert later.last_failure is not None
    assert later.last_failure.message == "new"


def test_the_failure_that_decided_is_the_last_though_its_node_is_behind_the_time() -> None:
    job = a_job()
    trouble = everything(job, chief_0=lambda p: p.unschedulable())
    stored(job, status_of(job, *trouble, now=100))
    pods = everything(job, chief_0=lambda p: p.exited(1, "boom", seconds=90))
    status = status_of(job, *pods, now=110)
    assert status.restarts == 1
    assert status.last_failure is not None
    assert status.last_failure.message == "boom"


def test_a_cause_without_a_time_is_new_only_once() -> None:
    job = a_job()
    pods = everything(job, ps_0=lambda p: p.waiting("ErrImagePull"))
    status = status_of(job, *pods, now=5)
    pods = everything(job, ps_0=lambda p: p.waiting("ImagePullBackOff"))
    later = status_of(stored(job, status), *pods, now=60)
    assert later.last_failure == status.last_failure
    assert status.last_failure is not None
    assert status.last_failure.time == stamp(5)


def test_what_servers_do_after_the_chief_succeeded_is_no_failure() -> None:
    job = running(a_job())
    pods = everything(job, chief_0=lambda p: p.exited(0), ps_0=lambda p: p.exited(143))
    assert status_of(job, *pods, now=5).last_failure is None


def test_hostile_words_are_bounded() -> None:
    loud = "€" * 100_000
    job = running(a_job().with_policy(backoffLimit=0))
    chief = everything(job, chief_0=lambda p: p.exited(1, loud))
    for pods in (
        chief,
        everything(job, ps_0=lambda p: p.waiting("R" * 300, loud)),
        everything(
            job, chief_0=lambda p: p.running().deleting(), ps_0=lambda p: p.waiting("R" * 300, loud)
        ),
        everything(job, ps_0=lambda p: p.unschedulable(loud)),
        everything(job, ps_0=lambda p: p.exited(1, loud, reason="W" * 300)),
    ):
        status = status_of(job, *pods)
        text = json.dumps(status.as_dict()).encode()
        assert Status.model_validate_json(text) == status
        assert len(text) < 200_000
    refused = Facts(refused={"mnist-ps-0": Cause("Refused", "€" * 2000)})
    status = status_of(a_job(), facts=refused)
    assert Status.model_validate_json(json.dumps(status.as_dict())) == status


# Reports.


def report(**fields: Any) -> Report:
    return Report(**{"step": 500, "total_steps": 1000} | fields)


WORDS = json.dumps({"phase": "done", "step": 1000, "totalSteps": 1000, "metrics": {"loss": 0.01}})


def test_the_chiefs_last_words_win_over_its_last_poll() -> None:
    job = running(a_job())
    facts = Facts(reports={Role.CHIEF: report()})
    status = status_of(job, *everything(job, chief_0=lambda p: p.exited(0, WORDS)), facts=facts)
    assert status.progress is not None
    assert (status.progress.step, status.progress.percent_text) == (1000, "100%")
    assert status.progress.loss == "0.01"


def test_last_words_that_are_a_log_do_not_count() -> None:
    job = running(a_job())
    facts = Facts(reports={Role.CHIEF: report()})
    status = status_of(job, *everything(job, chief_0=lambda p: p.exited(0, "bye")), facts=facts)
    assert status.progress is not None
    assert status.progress.step == 500


def test_a_chief_that_still_waits_does_not_set_progress_back() -> None:
    progress = Progress(step=500, updated_at=stamp())
    job = a_job().with_status(a_condition(T.RUNNING), attempt=1, progress=progress)
    facts = Facts(reports={Role.CHIEF: report(step=0, total_steps=None)})
    assert status_of(job, *everything(job), facts=facts).progress == progress


def test_a_script_that_waits_again_does_not_set_progress_back() -> None:
    """It says how many steps it will make before it connects, and restores after that."""
    progress = Progress(step=500, updated_at=stamp())
    job = a_job().with_status(first_running_time=stamp(), attempt=1, progress=progress)
    waits = everything(job, chief_0=lambda pod: pod.running(ready=False))
    facts = Facts(reports={Role.CHIEF: report(step=0, waiting_for=["worker-0"])})
    assert status_of(job, *waits, facts=facts).progress == progress
    trains = status_of(job, *everything(job), facts=Facts(reports={Role.CHIEF: report(step=0)}))
    assert trains.progress is not None
    assert trains.progress.step == 0, "it began anew"


def test_what_the_chief_before_reported_is_progress_of_its_own_attempt() -> None:
    job = running(a_job())
    facts = Facts(reports={Role.CHIEF: report()})
    failed = everything(job, chief_0=lambda p: p.exited(75))
    restarted = status_of(job, *failed, now=10, facts=facts)
    assert restarted.attempt == 1

    status = status_of(stored(job, restarted), *failed, now=11, facts=facts)
    assert (status.attempt, status.progress_attempt) == (1, 0)


def test_a_chief_that_waits_says_for_whom() -> None:
    job = a_job()
    pods = everything(job, chief_0=lambda pod: pod.running(ready=False))
    waiting = report(step=0, total_steps=None, waiting_for=["worker-1", "ps-0"])
    status = status_of(job, *pods, facts=Facts(reports={Role.CHIEF: waiting}))

    found = condition(status, T.RUNNING)
    assert found.reason == "ChiefNotReady"
    assert found.message == "the chief is waiting for mnist-worker-1, mnist-ps-0"


def a_waiting_report(*peers: UnreachablePeer) -> Facts:
    tasks = [peer.task for peer in peers]
    said = report(step=0, total_steps=None, waiting_for=tasks)
    return Facts(reports={Role.CHIEF: said.model_copy(update={"unreachable": list(peers)})})


def a_silent(task: str, cause: str, seconds: float = 30, reason: str = "") -> UnreachablePeer:
    return UnreachablePeer(task=task, seconds=seconds, cause=cause, reason=reason)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            PeerCause.NOT_RESOLVED,
            (
                "DNS does not resolve mnist-worker-1, mnist-ps-0: check Service mnist and the DNS"
                " of the cluster"
            ),
        ),
        (
            PeerCause.REFUSED,
            (
                "connection refused by mnist-worker-1, mnist-ps-0: check that TensorFlow's server"
                " listens there (logs)"
            ),
        ),
        (
            PeerCause.TIMED_OUT,
            (
                "connection timed out to mnist-worker-1, mnist-ps-0: check NetworkPolicies and the"
                " nodes' network, and whether the process hangs (logs)"
            ),
        ),
        (PeerCause.FAILED, "no connection to mnist-worker-1, mnist-ps-0: no route to host"),
        ("NewerCause", "no connection to mnist-worker-1, mnist-ps-0: no route to host"),
    ],
)
def test_a_chief_that_cannot_reach_servers_says_why(cause: str, said: str) -> None:
    pods = everything(a_job().with_workers(2), chief_0=lambda pod: pod.running(ready=False))
    facts = a_waiting_report(
        *(a_silent(task, cause, reason="no route to host") for task in ("worker-1", "ps-0"))
    )
    status = status_of(a_job().with_workers(2), *pods, facts=facts)

    found = condition(status, T.RUNNING)
    assert (found.status, found.reason) == ("False", "ServersUnreachable")
    assert found.message == f"the chief is waiting for mnist-worker-1, mnist-ps-0; {said}"
    assert (status.state, status.message) == ("ServersUnreachable", found.message)


def test_each_cause_is_named_with_its_servers() -> None:
    pods = everything(a_job().with_workers(2), chief_0=lambda pod: pod.running(ready=False))
    facts = a_waiting_report(
        a_silent("ps-0", PeerCause.REFUSED), a_silent("worker-1", PeerCause.NOT_RESOLVED)
    )
    message = status_of(a_job().with_workers(2), *pods, facts=facts).message or ""
    assert "; DNS does not resolve mnist-worker-1: check " in message
    assert "; connection refused by mnist-ps-0: check " in message


@pytest.mark.parametrize(
    ("peer", "ready"),
    [
        pytest.param(a_silent("worker-0", PeerCause.NOT_RESOLVED, 9), True, id="just begun"),
        pytest.param(a_silent("worker-0", PeerCause.NOT_ASKED), True, id="not asked"),
        pytest.param(a_silent("worker-0", ""), True, id="from an older trainer"),
        pytest.param(a_silent("worker-0", PeerCause.NOT_RESOLVED), False, id="not ready itself"),
    ],
)
def test_what_need_be_no_problem_of_the_network_is_not_called_one(
    peer: UnreachablePeer, *, ready: bool
) -> None:
    pods = everything(
        a_job(),
        chief_0=lambda pod: pod.running(ready=False),
        worker_0=lambda pod: pod.running(ready=ready),
    )
    status = status_of(a_job(), *pods, facts=a_waiting_report(peer))
    found = condition(status, T.RUNNING)
    assert found.reason == "ChiefNotReady"
    assert found.message == "the chief is waiting for mnist-worker-0"
    assert status.state == "Starting"


def test_a_chief_that_may_itself_be_cut_off_says_why_it_reaches_nobody() -> None:
    job = running(a_job().with_workers(2))
    facts = Facts(
        reports={
            Role.CHIEF: report(received=at(5)).model_copy(
                update={
                    "unreachable": [
                        a_silent(task, PeerCause.NOT_RESOLVED)
                        for task in ("worker-0", "worker-1", "ps-0")
                    ]
                }
            )
        }
    )
    status = status_of(job, *everything(job), now=5, facts=facts)
    assert "it may itself be cut off" in (status.message or "")
    assert "DNS does not resolve mnist-worker-0, mnist-worker-1, mnist-ps-0" in (
        status.message or ""
    )


def test_the_newest_checkpoint_is_told() -> None:
    saved = {"step": 400, "path": "/checkpoints/ckpt-400", "time": stamp(7)}
    facts = Facts(reports={Role.CHIEF: report(last_checkpoint=saved)})
    status = status_of(a_job(), *everything(a_job()), facts=facts)
    assert status.last_checkpoint is not None
    assert (status.last_checkpoint.step, status.last_checkpoint.path) == (400, saved["path"])


def test_an_exported_model_is_told_with_what_training_ended_with() -> None:
    model = {"step": 1000, "path": "/checkpoints/export/1000", "formats": ["keras"]}
    words = json.dumps({**json.loads(WORDS), "model": model})
    job = running(a_job())
    done = status_of(job, *everything(job, chief_0=lambda p: p.exited(0, words)))
    assert done.model is not None
    assert done.model.model_dump() == {**model, "metrics": [{"name": "loss", "value": "0.01"}]}
    again = status_of(stored(job, done), *everything(job), facts=Facts(reports={}))
    assert again.model == done.model


def test_the_best_checkpoint_is_told_while_the_job_trains() -> None:
    best = {"step": 400, "metric": "val_loss", "value": 0.25, "path": "/checkpoints/best/ckpt-400"}
    status = status_of(
        a_job(), *everything(a_job()), facts=Facts(reports={Role.CHIEF: report(best=best)})
    )
    assert status.as_dict()["best"] == {
        "step": 400,
        "path": best["path"],
        "metric": {"name": "val_loss", "value": "0.25"},
    }


def test_an_evaluation_is_final_when_the_evaluator_ended_well() -> None:
    job = running(a_job().with_evaluator())
    facts = Facts(reports={Role.EVALUATOR: report(metrics={"accuracy": 0.9})})
    early = status_of(job, *everything(job), facts=facts).evaluation
    assert early is not None
    assert (early.final, early.metrics[0].value) == (False, "0.9")
    words = json.dumps({"step": 1000, "metrics": {"accuracy": 0.95}})
    pods = everything(job, chief_0=lambda p: p.exited(0), evaluator_0=lambda p: p.exited(0, words))
    last = status_of(job, *pods, facts=facts).evaluation
    assert last is not None
    assert (last.final, last.step, last.metrics[0].value) == (True, 1000, "0.95")


# Silence, absence, disruption.


def silent(**fields: Any) -> JobBuilder:
    job = a_job().with_workers(2)
    progress = Progress(step=500, updated_at=stamp(), last_step_time=stamp())
    known = {"first_running_time": stamp(), "chief_uid": "uid-of-mnist-chief-0", **fields}
    return job.with_status(a_condition(T.RUNNING), progress=progress, **known)


def standing_still(now: float, **fields: Any) -> Facts:
    """A fresh report of a chief whose newest step was made at NOW."""
    known = {"seconds_since_step": now, "received": at(now), **fields}
    return Facts(reports={Role.CHIEF: report(**known)})


def test_no_new_step_for_a_minute_is_a_stall_that_names_who_is_missing() -> None:
    job = silent()
    hung = UnreachablePeer(task="ps-0", seconds=50)
    pods = everything(job, worker_1=lambda pod: pod.running(ready=False))
    facts = standing_still(60, unreachable=[hung])
    stalled = condition(status_of(job, *pods, now=60, facts=facts), T.STALLED)
    assert (stalled.status, stalled.reason) == ("True", "NoNewStep")
    assert stalled.message == (
        "no new step since 2026-01-02T03:04:05Z; unavailable: mnist-ps-0, mnist-worker-1"
    )
    early = status_of(job, *pods, now=59, facts=standing_still(59, unreachable=[hung]))
    assert find(early.conditions, T.STALLED) is None


def test_a_stall_without_a_culprit_says_so() -> None:
    job = silent()
    status = status_of(job, *everything(job), now=60, facts=standing_still(60))
    stalled = condition(status, T.STALLED)
    assert stalled.message.endswith("though all pods are ready")


def test_a_stall_ends_with_the_next_step() -> None:
    job = silent()
    stored(job, status_of(job, *everything(job), now=60, facts=standing_still(60)))
    facts = Facts(reports={Role.CHIEF: report(step=501, received=at(70))})
    again = condition(status_of(job, *everything(job), now=70, facts=facts), T.STALLED)
    assert again.status == "False"


def test_a_chief_that_runs_callbacks_is_said_to() -> None:
    facts = Facts(reports={Role.CHIEF: report(activity="callbacks", received=at(20))})
    status = status_of(running(a_job()), *everything(a_job()), now=21, facts=facts)
    assert status.message == "the chief is running callbacks; training continues after them"


def test_a_step_is_dated_by_when_it_was_made() -> None:
    job = running(a_job())
    facts = Facts(reports={Role.CHIEF: report(seconds_since_step=3.5, received=at(20))})
    status = status_of(job, *everything(job), now=21, facts=facts)
    assert status.progress is not None
    assert (status.progress.updated_at, status.progress.last_step_time) == (stamp(21), stamp(16))


def test_who_is_away_and_left_out_is_kept() -> None:
    job = silent().with_role("worker", minReplicas=1)
    pods = everything(job, worker_1=lambda pod: pod.running(ready=False))
    status = status_of(job, *pods, now=5)
    assert [(w.index, w.since) for w in status.unavailable_workers] == [(1, stamp(5))]
    stored(job, status)
    later = status_of(job, *pods, now=35)
    assert later.excluded_workers == [1]
    back = status_of(stored(job, later), *everything(job), now=50)
    assert (back.excluded_workers, back.unavailable_workers) == ([], [])
    # An empty list is stored: the CRD has it for a default, and would bring it back.
    assert back.as_dict()["excludedWorkers"] == []


def test_the_newest_disruption_of_a_ps_is_kept_and_no_workers() -> None:
    job = running(a_job())
    pods = everything(
        job,
        ps_0=lambda pod: pod.running().disrupted(7),
        worker_0=lambda pod: pod.running().disrupted(9),
    )
    last = status_of(job, *pods, now=9).last_disruption
    assert last is not None
    assert (last.pod, last.reason, last.time) == ("mnist-ps-0", "EvictionByEvictionAPI", stamp(7))
    kept = status_of(stored(job, status_of(job, *pods, now=9)), *everything(job), now=60)
    assert kept.last_disruption == last


def test_the_disruption_of_the_last_worker_is_kept_and_of_no_other() -> None:
    job = running(a_job().with_workers(2))
    lost = {"worker_0": lambda pod: pod.running().disrupted(9)}
    assert status_of(job, *everything(job, **lost), now=9).last_disruption is None
    lost["worker_1"] = lambda pod: pod.exited(143).disrupted(8)
    last = status_of(job, *everything(job, **lost), now=9).last_disruption
    assert last is not None
    assert (last.pod, last.time) == ("mnist-worker-0", stamp(9))


# Rejection.


def test_a_rejected_job_says_why() -> None:
    status = rejected_status(Status(), 3, Reason.INVALID_TEMPLATE, "no container", at(5))
    assert [c.type for c in status.conditions] == [T.ACCEPTED, T.FINISHED]
    found = condition(status, T.ACCEPTED)
    assert (found.status, found.reason, found.message) == (
        "False",
        "InvalidTemplate",
        "no container",
    )
    assert (status.state, status.message, status.observed_generation) == (
        "InvalidTemplate",
        "no container",
        3,
    )
    again = rejected_status(status, 3, Reason.INVALID_TEMPLATE, "no container", at(500))
    assert again == status


def test_an_end_outlives_a_rejection() -> None:
    job = running(a_job())
    ended = status_of(job, *everything(job, chief_0=lambda p: p.exited(0)), now=5)
    status = rejected_status(ended, 2, Reason.INVALID_SPEC, "x" * 100_000, at(500))
    assert status.state == "Succeeded"
    assert is_true(status, T.SUCCEEDED)
    assert is_true(status, T.FINISHED)
    assert Status.model_validate_json(json.dumps(status.as_dict())) == status


def test_a_condition_of_another_version_does_not_keep_a_job_from_being_rejected() -> None:
    other = Condition(
        type="FromTheFuture",
        status=ConditionStatus.TRUE,
        reason="R",
        last_transition_time=stamp(),
        observed_generation=1,
    )
    status = rejected_status(Status(conditions=[other]), 1, Reason.INVALID_SPEC, "no", at(5))
    assert not is_true(status, T.ACCEPTED)


# Evidence.


def test_without_a_report_the_message_claims_nothing() -> None:
    status = status_of(a_job(), *everything(a_job()))
    assert status.message == "the chief is ready; it has not reported progress"
    facts = Facts(reports={Role.CHIEF: report()})
    assert status_of(a_job(), *everything(a_job()), facts=facts).message == "the chief trains"


def test_a_new_operator_without_a_report_yet_changes_nothing() -> None:
    facts = Facts(reports={Role.CHIEF: report(received=at(5))}, asked_since=at(0))
    job = stored(a_job(), status_of(a_job(), *everything(a_job()), now=5, facts=facts))
    later = status_of(job, *everything(job), now=300, facts=Facts(asked_since=at(299)))
    assert later == job.build().status


@pytest.mark.parametrize(
    ("states", "state", "reason"),
    [
        pytest.param(
            {"worker_0": lambda p: p.waiting("CrashLoopBackOff", "boom")},
            "NoWorkersAvailable",
            "NoWorkersAvailable",
            id="the only one cannot run",
        ),
        pytest.param(
            {"worker_0": lambda p: p.running(ready=False)},
            "Running",
            "Training",
            id="the only one is about to come back",
        ),
    ],
)
def test_a_job_that_lost_all_its_workers_is_not_running(
    states: Any, state: str, reason: str
) -> None:
    job = running(a_job())
    status = status_of(job, *everything(job, **states), now=5)
    assert (status.state, condition(status, T.RUNNING).reason) == (state, reason)


def test_that_the_job_ran_and_was_interrupted_is_stored() -> None:
    job = running(a_job())
    first = job.build().status
    assert (first.first_running_time, first.interrupted_time) == (stamp(), None)
    failed = status_of(job, *everything(job, chief_0=lambda p: p.exited(75)), now=5)
    assert (failed.first_running_time, failed.interrupted_time) == (stamp(), stamp(5))
    again = status_of(stored(job, failed), *everything(job), now=50)
    assert (again.first_running_time, again.interrupted_time) == (stamp(), None)


def test_the_image_that_the_job_started_with_stays() -> None:
    job = running(a_job())
    built = job.build()
    observed = seen(built, *everything(job))
    decision = decide(built, observed, NOTHING, at(9))
    later = compute_status(built, observed, decision, NOTHING, at(9), trainer_image="newer:2")
    assert later.trainer_image == IMAGE


def test_a_node_whose_clock_is_ahead_brings_no_new_failure_at_each_look() -> None:
    job = running(a_job())
    pods = everything(job, worker_0=lambda p: p.restarted_in_place(1, "boom", seconds=3600))
    first = status_of(job, *pods, now=5)
    assert status_of(stored(job, first), *pods, now=6) == first
    assert status_of(stored(job, first), *pods, now=60) == first


def test_a_suspension_that_comes_too_late_is_answered() -> None:
    job = running(a_job().with_evaluator())
    pods = everything(job, chief_0=lambda p: p.exited(0))
    stored(job, status_of(job, *pods, now=5)).with_policy(suspend=True)
    found = condition(status_of(job, *pods, now=6), T.SUSPENDED)
    assert (found.status, found.reason) == ("False", "NotSuspended")
    assert found.message == "the chief has succeeded; the last evaluation is not suspended"


def test_control_characters_never_reach_the_status() -> None:
    job = running(a_job())
    pods = everything(job, chief_0=lambda p: p.exited(1, "\x1b[31mred\x07\nnext"))
    text = json.dumps(status_of(job, *pods, now=5).as_dict())
    assert "\\u001b" not in text
    assert "\\u0007" not in text


def test_a_job_that_an_older_operator_was_restarting_is_known_to_have_run() -> None:
    job = a_job().with_status(attempt=2, restarts=1)
    status = status_of(job, *everything(job)[:-1], now=7200)
    assert status.state != "Failed", "the startup deadline is for the first start"
    assert (status.first_running_time, status.interrupted_time) == (stamp(), stamp(7200))
    assert status_of(stored(job, status), *everything(job)[:-1], now=9000).state != "Failed"


def test_volumes_that_take_their_time_are_told_and_no_failure() -> None:
    job = a_job()
    slow = a_pod(job.build(), Role.PS).made(0)
    slow.condition("PodScheduled", value=True, lastTransitionTime=stamp())
    slow.condition("PodReadyToStartContainers", value=False, lastTransitionTime=stamp())
    status = status_of(job, slow, now=30)
    assert "its volumes and network are not ready" in (status.message or "")
    assert (status.last_failure, status.first_failure) == (None, None)


def test_a_report_of_a_chief_that_is_gone_belongs_to_no_attempt() -> None:
    job = running(a_job())
    facts = Facts(reports={Role.CHIEF: report(resumed_step=24)})
    before = status_of(job, *everything(job), facts=facts)
    assert before.progress_attempt == 0
    stored(job, before.model_copy(update={"attempt": 1, "chief_uid": None}))
    gone = everything(job)[:-1]
    assert status_of(job, *gone, now=5, facts=facts).progress_attempt == 0


def test_examples_that_were_trained_on_once_more_are_shown_if_there_are_any() -> None:
    job = running(a_job())
    facts = Facts(reports={Role.CHIEF: report(repeated_examples=640)})
    before = status_of(job, *everything(job), facts=facts)
    assert before.repeated_examples == 640

    # It resumed from a checkpoint that has not seen them.
    again = Facts(reports={Role.CHIEF: report(repeated_examples=0)})
    assert status_of(stored(job, before), *everything(job), facts=again).repeated_examples is None
