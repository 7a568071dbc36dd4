"""Which calls a decision asks for: what is missing, what is too much, and what has to wait."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Progress, Restart, UnavailableWorker
from tftraining_operator.core import desired, tfconfig
from tftraining_operator.core.decide import decide
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.observed import observe
from tftraining_operator.core.plan import Plan, make_plan
from tftraining_operator.core.progress import Report, UnreachablePeer

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
    from collections.abc import Callable, Mapping

    from tftraining_operator.core.decision import Decision
    from tftraining_operator.core.policies.removal import Removal

FINISHED = (a_condition(ConditionType.SUCCEEDED), a_condition(ConditionType.FINISHED))


@dataclass(frozen=True)
class Planned:
    """A decision with the calls that it is translated into."""

    decision: Decision
    plan: Plan

    @property
    def causes(self) -> dict[str, str]:
        """Why pods are replaced."""
        return {r.pod.name: r.cause for r in self.removed if r.is_replacement}

    @property
    def grace(self) -> dict[str, int]:
        """Graces that are not the pods' own."""
        return {r.pod.name: r.grace for r in self.removed if r.grace is not None}

    @property
    def removed(self) -> tuple[Removal, ...]:
        """What goes now, or in the next pass when it is stored that it goes."""
        return self.decision.removals + self.decision.announced


def planned(
    job: JobBuilder,
    *pods: PodBuilder,
    now: float = 0,
    service: bool = True,
    reports: Mapping[Role, Report] | None = None,
) -> Planned:
    built = job.build()
    observed = seen(built, *pods, service=service)
    decision = decide(built, observed, Facts(reports=reports or {}), at(now))
    return Planned(decision, make_plan(built, observed, decision, IMAGE))


def everything(job: JobBuilder) -> dict[str, PodBuilder]:
    built = job.build()
    pods = [a_pod(built, role, i).running() for role in Role for i in range(built.desired(role))]
    return {pod.raw["metadata"]["name"].removeprefix("mnist-"): pod for pod in pods}


def made(planned: Planned) -> list[str]:
    return [pod.name.removeprefix("mnist-") for pod in planned.plan.pods]


def deleted(planned: Planned) -> set[str]:
    return {removal.pod.name.removeprefix("mnist-") for removal in planned.removed}


def test_a_new_job_gets_all_servers_first() -> None:
    plan = planned(a_job().with_workers(2).with_evaluator(), service=False)
    assert made(plan) == ["ps-0", "worker-0", "worker-1", "chief-0", "evaluator-0"]
    assert plan.plan.service is not None
    assert deleted(plan) == set()


def test_a_complete_job_needs_nothing() -> None:
    job = a_job().with_status()
    plan = planned(job, *everything(job).values())
    assert (plan.plan.pods, deleted(plan), plan.plan.service) == ([], set(), None)


@pytest.mark.parametrize(
    ("job", "chief"),
    [
        pytest.param(a_job(), lambda p: p.exited(1), id="a new attempt"),
        pytest.param(a_job(), lambda p: p.exited(0), id="a success"),
        pytest.param(a_job(), lambda p: p.exited(64), id="a failure"),
        pytest.param(a_job().with_evaluator(), lambda p: p.exited(0), id="the grace begins"),
    ],
)
def test_what_is_only_now_decided_is_stored_before_anything_is_deleted(
    job: JobBuilder, chief: Callable[[PodBuilder], PodBuilder]
) -> None:
    pods = everything(job.with_status())
    chief(pods["chief-0"])
    del pods["worker-0"]
    plan = planned(job, *pods.values())
    assert (plan.plan.pods, deleted(plan), plan.plan.service, plan.plan.delete_job) == (
        [],
        set(),
        None,
        False,
    )


def test_a_stale_chief_goes_then_its_successor_comes() -> None:
    job = a_job().with_status(attempt=1, restarts=1)
    pods = everything(a_job())
    assert deleted(planned(job, *pods.values())) == {"chief-0"}
    assert made(planned(job, *pods.values())) == [], "its name is still taken"
    pods["chief-0"].deleting()
    assert made(planned(job, *pods.values())) == []
    del pods["chief-0"]
    plan = planned(job, *pods.values())
    assert made(plan) == ["chief-0"]
    assert plan.plan.pods[0].make()["metadata"]["labels"][keys.LABEL_ATTEMPT] == "1"


def test_a_new_attempt_of_a_gang_takes_all_its_workers() -> None:
    before = a_job().mirrored(workers=2).with_evaluator()
    pods = everything(before)
    job = before.with_status(attempt=1, restarts=1)
    assert deleted(planned(job, *pods.values())) == {"chief-0", "worker-0", "worker-1"}


def test_more_workers_are_made_beside_the_chief_that_trains() -> None:
    job = a_job().with_workers(4).with_status(cluster_workers=2)
    pods = everything(a_job().with_workers(2))
    plan = planned(job, *pods.values())
    assert (made(plan), deleted(plan)) == (["worker-2", "worker-3"], set())


def test_each_pod_can_be_made_that_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfconfig, "LIMIT", 500)
    job = a_job().with_workers(9).with_status(cluster_workers=3)
    found = planned(job, everything(a_job().with_workers(3))["chief-0"]).plan
    assert [pod.make()["metadata"]["name"] for pod in found.pods] == [
        f"mnist-{task}" for task in ("ps-0", "worker-0", "worker-1", "worker-2")
    ]
    assert sorted(found.refused) == [f"mnist-worker-{index}" for index in range(3, 9)]


def test_with_the_new_workers_ready_for_a_while_the_chief_alone_is_replaced() -> None:
    job = a_job().with_workers(4).with_status(cluster_workers=2)
    pods = everything(a_job().with_workers(4)) | everything(a_job().with_workers(2))
    early = planned(job, *pods.values(), now=19)
    assert (early.decision.restart, early.decision.look_again) == (None, at(20))
    found = planned(job, *pods.values(), now=20).decision
    assert found.restart is not None
    assert (found.restart.reason, found.membership.size, found.removals) == ("Scaled", 4, ())
    after = a_job().with_workers(4).with_status(cluster_workers=4, attempt=1)
    assert deleted(planned(after, *pods.values(), now=20)) == {"chief-0"}


def test_of_fewer_workers_the_highest_go_after_the_chief() -> None:
    pods = everything(a_job().with_workers(4))
    found = planned(a_job().with_workers(2).with_status(cluster_workers=4), *pods.values()).decision
    assert found.restart is not None
    assert (found.restart.reason, found.restart.counted) == ("Scaled", False)
    after = a_job().with_workers(2).with_status(cluster_workers=2, attempt=1)
    assert deleted(planned(after, *pods.values())) == {"chief-0"}
    del pods["chief-0"]
    assert deleted(planned(after, *pods.values())) == {"worker-2", "worker-3"}


def test_a_missing_server_is_made_again_alone() -> None:
    job = a_job().with_workers(3).with_status()
    pods = everything(job)
    del pods["worker-1"]
    plan = planned(job, *pods.values())
    assert (made(plan), deleted(plan)) == (["worker-1"], set())


def test_a_name_that_an_earlier_job_holds_is_waited_for() -> None:
    earlier = a_job().named("mnist", uid="uid-0").build()
    plan = planned(a_job(), a_pod(earlier, Role.CHIEF).running())
    assert made(plan) == ["ps-0", "worker-0"]
    assert deleted(plan) == set(), "what is not ours is not ours to delete"


def test_a_service_that_an_earlier_job_holds_is_waited_for() -> None:
    job = a_job().build()
    observed = observe(
        job, [], [desired.service(a_job().named("mnist", uid="uid-0").build())], at(0)
    )
    decision = decide(job, observed, Facts(), at(0))
    assert make_plan(job, observed, decision, IMAGE).service is None


@pytest.mark.parametrize("role", ["worker-0", "ps-0", "evaluator-0"])
def test_a_server_that_died_young_is_replaced_only_after_ten_seconds(role: str) -> None:
    job = a_job().with_evaluator().with_status()
    pods = everything(job)
    pods[role].made(100).evicted()
    plan = planned(job, *pods.values(), now=105)
    assert (deleted(plan), plan.decision.look_again) == (set(), at(110))
    assert deleted(planned(job, *pods.values(), now=110)) == {role}


def test_a_lost_evaluator_is_replaced_in_its_grace_too() -> None:
    job = a_job().with_evaluator().with_status(chief_completion_time=stamp(50))
    pods = everything(job)
    pods["chief-0"].exited(0)
    pods["evaluator-0"].evicted()
    assert deleted(planned(job, *pods.values(), now=60)) == {"worker-0", "ps-0", "evaluator-0"}
    del pods["evaluator-0"]
    assert made(planned(job, *pods.values(), now=60)) == ["evaluator-0"]


def test_in_the_evaluators_grace_servers_go_and_are_not_made_again() -> None:
    job = a_job().with_evaluator().with_status(chief_completion_time=stamp(50))
    pods = everything(job)
    pods["chief-0"].exited(0)
    plan = planned(job, *pods.values(), now=60)
    assert (made(plan), deleted(plan), plan.decision.look_again) == (
        [],
        {"worker-0", "ps-0"},
        at(170),
    )
    assert made(planned(job, pods["chief-0"], pods["evaluator-0"], now=60)) == []


@pytest.mark.parametrize(
    ("restarts", "now", "chief", "wake"),
    [
        pytest.param(1, 100, True, None, id="the first restart is at once"),
        pytest.param(2, 109, False, 110, id="the second waits"),
        pytest.param(2, 110, True, None, id="and is made in its time"),
    ],
)
def test_the_next_chief_is_made_when_it_is_due(
    restarts: int, now: float, *, chief: bool, wake: float | None
) -> None:
    last = Restart(
        reason="ChiefFailed",
        time=stamp(100),
        counted=True,
        not_before=stamp(110) if restarts > 1 else None,
    )
    job = a_job().with_policy(startupDeadlineSeconds=9999)
    job.with_status(attempt=restarts, restarts=restarts, last_restart=last)
    pods = everything(job)
    del pods["chief-0"]
    plan = planned(job, *pods.values(), now=now)
    assert made(plan) == (["chief-0"] if chief else [])
    if wake is not None:
        assert plan.decision.look_again == at(wake)


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        pytest.param({"attempt": 1}, True, id="of an image that may block for ever"),
        pytest.param({"attempt": 0}, False, id="not the first, it starts along with them"),
        pytest.param(
            {"attempt": 1, "progress": Progress(step=1, updated_at=stamp())},
            False,
            id="not one that waits by itself",
        ),
    ],
)
def test_a_next_chief_waits_for_its_servers(status: dict[str, Any], *, waits: bool) -> None:
    job = a_job().with_status(**status)
    pods = everything(job)
    del pods["chief-0"]
    pods["ps-0"].running(ready=False)
    assert made(planned(job, *pods.values())) == ([] if waits else ["chief-0"])
    pods["ps-0"].running()
    assert made(planned(job, *pods.values())) == ["chief-0"]


def test_a_dead_chief_is_not_waited_for() -> None:
    job = a_job().with_status(attempt=1, progress=Progress(step=1, updated_at=stamp()))
    pods = everything(job)
    pods["chief-0"] = a_pod(job.build(), Role.CHIEF, attempt=0).exited(75)
    plan = planned(job, *pods.values(), now=60)
    assert (deleted(plan), plan.grace) == ({"chief-0"}, {"mnist-chief-0": 0})
    pods["chief-0"].with_sidecar()
    plan = planned(job, *pods.values(), now=60)
    assert (deleted(plan), plan.grace) == ({"chief-0"}, {})


def test_a_server_that_the_kubelet_holds_back_is_replaced_with_the_reason() -> None:
    job = a_job().with_status()
    pods = everything(job)
    pods["ps-0"].in_restart_backoff(ran=60)
    plan = planned(job, *pods.values(), now=60)
    assert deleted(plan) == {"ps-0"}
    assert plan.causes["mnist-ps-0"].startswith("it crashed after running well")
    assert plan.grace == {"mnist-ps-0": 0}


def test_a_server_that_the_chief_cannot_reach_is_replaced_with_the_reason() -> None:
    job = a_job().with_status()
    peer = UnreachablePeer(task="worker-0", seconds=12)
    report = Report(unreachable=[peer], received=at(60))
    plan = planned(job, *everything(job).values(), now=60, reports={Role.CHIEF: report})
    assert deleted(plan) == {"worker-0"}
    assert plan.causes["mnist-worker-0"] == "the chief cannot reach it for 12 s"
    assert plan.grace == {"mnist-worker-0": 1}


def test_what_a_lost_node_does_not_let_go_is_deleted_without_it() -> None:
    job = a_job().with_status()
    pods = everything(job)
    pods["worker-0"].deleting()
    before = planned(job, *pods.values(), now=104)
    assert (deleted(before), before.decision.look_again) == (set(), at(105))
    plan = planned(job, *pods.values(), now=105)
    assert (deleted(plan), plan.grace) == ({"worker-0"}, {"mnist-worker-0": 0})


def test_a_cluster_that_changes_is_stored_before_the_chief_goes() -> None:
    away = [UnavailableWorker(index=1, since=stamp())]
    job = a_job().with_role("worker", replicas=2, minReplicas=1)
    running = a_condition(ConditionType.RUNNING)
    job.with_status(running, unavailable_workers=away, first_running_time=stamp())
    pods = everything(job)
    pods["worker-1"].running(ready=False)
    plan = planned(job, *pods.values(), now=60)
    assert (deleted(plan), made(plan)) == (set(), [])
    assert plan.decision.restart is not None
    assert plan.decision.restart.reason == "WorkerExcluded"

    job.with_status(running, unavailable_workers=away, excluded_workers=[1], attempt=1)
    assert deleted(planned(job, *pods.values(), now=60)) == {"chief-0"}
    del pods["chief-0"]
    (chief,) = planned(job, *pods.values(), now=60).plan.pods
    env = {e["name"]: e["value"] for e in chief.make()["spec"]["containers"][0]["env"]}
    assert len(json.loads(env["TF_CONFIG"])["cluster"]["worker"]) == 1


def test_a_suspended_job_has_no_pods() -> None:
    job = a_job().with_policy(suspend=True).with_status()
    pods = everything(job)
    pods["ps-0"].deleting()
    pods["worker-0"].evicted()
    plan = planned(job, *pods.values())
    assert (made(plan), deleted(plan)) == ([], {"chief-0"}), "the others serve while it saves"
    assert not plan.plan.delete_service
    del pods["chief-0"]
    assert deleted(planned(job, *pods.values())) == {"worker-0"}


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        pytest.param("Running", {"worker-0", "ps-0"}, id="Running"),
        pytest.param("All", {"chief-0", "worker-0", "ps-0"}, id="All"),
        pytest.param("None", set(), id="None"),
    ],
)
def test_clean_pod_policy(policy: str, gone: set[str]) -> None:
    job = a_job().with_policy(cleanPodPolicy=policy)
    job.with_status(*FINISHED, completion_time=stamp())
    pods = everything(job)
    pods["chief-0"].exited(0)
    plan = planned(job, *pods.values())
    assert (made(plan), deleted(plan)) == ([], gone)
    assert not plan.plan.delete_service, "it goes with the job"


@pytest.mark.parametrize(
    ("now", "expired"), [pytest.param(64, False, id="before"), pytest.param(65, True, id="after")]
)
def test_time_to_live(now: float, *, expired: bool) -> None:
    job = a_job().with_policy(ttlSecondsAfterFinished=60)
    job.with_status(*FINISHED, completion_time=stamp(5))
    plan = planned(job, now=now)
    assert plan.plan.delete_job == expired
    assert plan.decision.look_again == (None if expired else at(65))


def test_the_nearest_of_all_moments_wakes() -> None:
    job = a_job().with_policy(activeDeadlineSeconds=300)
    job.with_status(a_condition(ConditionType.RUNNING))
    pods = everything(job)
    assert planned(job, *pods.values()).decision.look_again == at(300)
    pods["worker-0"].made(0).evicted()
    assert planned(job, *pods.values()).decision.look_again == at(10)
