"""Lives of jobs that ended wrongly, or never, until a review found them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.progress import Report

from tests.unit.builders import NOW, JobBuilder, a_job, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tftraining_operator.api.status import Status

    from tests.unit.builders import PodBuilder
    from tests.unit.fakes import Operator

CHIEF, PS, EVALUATOR = "mnist-chief-0", "mnist-ps-0", "mnist-evaluator-0"
DAY = 86_400.0


class Life:
    """A job and what happens to it; times are seconds since NOW."""

    def __init__(self, operator: Operator, job: JobBuilder) -> None:
        self.operator = operator
        self.cluster = operator.cluster
        self.key = self.cluster.submit(job.raw)
        self.run()

    @property
    def now(self) -> float:
        return (self.cluster.clock() - NOW).total_seconds()

    @property
    def status(self) -> Status:
        return self.cluster.status(self.key)

    def run(self) -> None:
        """Have all pods run that are to."""
        for _ in range(4):
            self.operator.settle()
            self.cluster.run_pods()
        self.operator.settle()

    def train(self, step: int) -> None:
        told = Report(received=self.cluster.clock(), step=step, total_steps=1000)
        self.operator.progress.told[Role.CHIEF] = told.model_copy(
            update={"seconds_since_step": 0.1}
        )
        self.operator.look(self.key)
        self.operator.settle()

    def hit(self, change: Callable[[PodBuilder], object], *pods: str) -> None:
        for pod in pods:
            self.cluster.act(pod, change)
        self.operator.settle()

    def evict(self, *pods: str) -> None:
        now = self.now
        self.hit(lambda pod: pod.exited(143, seconds=now).disrupted(now), *pods)

    def end_chief(self, code: int, text: str) -> None:
        now = self.now
        self.hit(lambda pod: pod.exited(code, text, seconds=now), CHIEF)


def workers(indexes: Iterable[int]) -> list[str]:
    return [f"mnist-worker-{index}" for index in indexes]


def test_a_chief_that_waits_for_evicted_workers_in_vain_is_restarted_uncounted(
    operator: Operator,
) -> None:
    life = Life(operator, a_job().with_workers(2).with_policy(backoffLimit=1))
    for step in (10, 20, 30):
        life.train(step)
        operator.wait(1800)
        life.evict(*workers(range(2)))
        operator.wait(130)
        life.end_chief(76, f"no step completed for 120 s, at step {step}")
        last = life.status.last_restart
        assert last is not None
        assert (last.reason, last.counted) == ("Disrupted", False)
        life.run()
    assert (life.status.state, life.status.restarts) == ("Running", 0)


def test_a_worker_that_is_evicted_before_training_begins_costs_no_restart(
    operator: Operator,
) -> None:
    cluster = operator.cluster
    key = cluster.submit(a_job().with_policy(backoffLimit=0).raw)
    operator.settle()
    cluster.act("mnist-worker-0", lambda pod: pod.exited(143).disrupted())
    cluster.act(CHIEF, lambda pod: pod.exited(69, "worker-0 was lost before training began"))
    operator.settle()
    assert cluster.status(key).state != "Failed"
    assert cluster.status(key).restarts == 0


def test_the_users_error_is_counted_though_a_ps_was_evicted_days_before(operator: Operator) -> None:
    life = Life(operator, a_job())
    life.evict(PS)
    operator.wait(20)
    life.run()
    life.train(10)
    operator.wait(3 * DAY)
    life.train(900)
    life.end_chief(1, "ValueError: bad label 7")
    last = life.status.last_restart
    assert last is not None
    assert (last.reason, last.counted) == ("ChiefFailed", True)


def test_who_was_evicted_is_told_though_the_chief_failed_in_the_same_moment(
    operator: Operator,
) -> None:
    life = Life(operator, a_job())
    operator.wait(60)
    now = life.now
    life.cluster.act(PS, lambda pod: pod.exited(143, seconds=now).disrupted(now))
    life.end_chief(75, "ps-0 was lost")
    last = life.status.last_restart
    assert last is not None
    assert last.message.startswith("mnist-ps-0 was disrupted (EvictionByEvictionAPI);")


def test_a_cluster_that_shrinks_keeps_as_many_workers_as_it_needs(operator: Operator) -> None:
    life = Life(operator, a_job().with_role("worker", replicas=4, minReplicas=2))
    life.train(10)
    for lost in workers(range(2)):
        life.cluster.collect(lost)
    operator.settle()
    life.hit(lambda pod: pod.unschedulable(), *workers(range(2)))
    operator.wait(31)
    assert life.status.excluded_workers == [0, 1]
    life.cluster.edit(life.key, lambda spec: spec["worker"].update(replicas=2))
    operator.settle()
    operator.wait(31)
    assert (life.status.cluster_workers, life.status.excluded_workers) == (2, [])


def test_the_same_words_on_three_days_are_no_repetition_where_no_step_is_known(
    operator: Operator,
) -> None:
    life = Life(operator, a_job().with_policy(backoffLimit=10))
    for _ in range(4):
        operator.wait(2 * DAY)
        life.end_chief(1, "UnavailableError: failed to connect to all addresses")
        operator.wait(60)
        life.run()
    assert (life.status.state, life.status.restarts) == ("Running", 4)


def test_a_node_that_cannot_start_one_worker_of_a_job_that_trains_does_not_end_it(
    operator: Operator,
) -> None:
    life = Life(operator, a_job().with_workers(2))
    life.train(10)
    life.cluster.collect("mnist-worker-1")
    operator.settle()
    error = {"exitCode": 128, "reason": "StartError", "message": "driver rpc error: timed out"}
    error |= {"finishedAt": stamp(life.now), "startedAt": "1970-01-01T00:00:00Z"}
    life.hit(
        lambda pod: (
            pod.waiting("RunContainerError", lastState={"terminated": error}, restartCount=1),
            pod.status.update(phase="Running"),
        ),
        "mnist-worker-1",
    )
    assert life.status.completion_time is None


@pytest.mark.parametrize("trained", [True, False])
def test_a_node_that_cannot_start_the_chief_of_a_job_that_trained_does_not_end_it(
    operator: Operator, *, trained: bool
) -> None:
    job = a_job()
    if trained:
        life = Life(operator, job)
        life.train(10)
        life.cluster.collect(CHIEF)
        operator.settle()
    else:
        life = Life(operator, job.with_policy(suspend=True))
        life.cluster.resume(life.key)
        operator.settle()
    now = life.now
    life.hit(lambda pod: pod.exited(128, "no space left", reason="StartError", seconds=now), CHIEF)
    assert (life.status.completion_time is None) is trained
    assert life.status.restarts == int(trained)


def test_a_worker_that_runs_again_is_not_judged_by_its_end_of_before(operator: Operator) -> None:
    life = Life(operator, a_job().with_workers(2))
    life.train(10)
    life.cluster.act("mnist-worker-1", lambda pod: pod.restarted_in_place(127, "not found"))
    life.cluster.clock.tick(3600)
    operator.settle()

    def unready(pod: PodBuilder) -> None:
        pod.status["containerStatuses"][0]["ready"] = False
        pod.condition("Ready", value=False, reason="ContainersNotReady")

    life.hit(unready, "mnist-worker-1")
    assert life.status.completion_time is None


def test_the_recovery_deadline_ends_a_job_without_workers_whose_chief_is_ready(
    operator: Operator,
) -> None:
    life = Life(operator, a_job().with_workers(2).with_policy(recoveryDeadlineSeconds=300))
    life.train(10)
    for lost in workers(range(2)):
        life.cluster.collect(lost)
    operator.settle()
    life.hit(lambda pod: pod.waiting("ImagePullBackOff", "no such image"), *workers(range(2)))
    operator.wait(290)
    assert life.status.state == "NoWorkersAvailable"
    operator.wait(20)
    assert [c.reason for c in life.status.conditions if c.type == "Failed"] == [
        "RecoveryDeadlineExceeded"
    ]


@pytest.mark.parametrize("grace", [600])
def test_an_evaluator_on_a_lost_node_is_replaced_after_the_chief_has_succeeded(
    operator: Operator, grace: int
) -> None:
    job = a_job().with_evaluator().with_policy(evaluatorGraceSeconds=grace)
    life = Life(operator, job)
    life.train(10)
    old = life.cluster.pods()[EVALUATOR]["metadata"]["uid"]
    life.cluster.lose_node(EVALUATOR)
    operator.wait(10)
    life.hit(lambda pod: pod.exited(0), CHIEF)
    operator.wait(200)
    life.run()
    assert life.cluster.pods()[EVALUATOR]["metadata"]["uid"] != old


@pytest.mark.parametrize("kept", [{"attempt": 0}, {}])
def test_an_edited_status_counts_one_failure_of_the_chief_once(
    operator: Operator, kept: dict[str, object]
) -> None:
    life = Life(operator, a_job().with_workers(1).with_policy(backoffLimit=4))
    life.train(10)
    for _ in range(3):
        life.cluster.collect(CHIEF)
        life.run()
    assert life.status.attempt == 3

    def edited(status: dict[str, object]) -> None:
        if not kept:
            status.clear()
        status.update(kept)

    life.cluster.tamper(life.key, edited)
    operator.wait(10)
    assert life.status.attempt == 3
    life.end_chief(1, "ValueError: x")
    life.run()
    assert (life.status.attempt, life.status.restarts) == (4, 1)
    told = [e["note"] for e in life.cluster.events if e["reason"] == "StatusRepaired"]
    assert told == ["status.attempt: 0 is behind the pods of the job; set to 3"]
