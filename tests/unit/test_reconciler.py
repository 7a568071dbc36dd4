"""Whole passes over a cluster in memory: what is called, in which order, and when again."""

from __future__ import annotations

import asyncio
import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.controller.job_metrics import ENDS, FAILED
from tftraining_operator.core.conditions import find
from tftraining_operator.core.environment import CLUSTER_WORKERS
from tftraining_operator.core.progress import PeerCause, Report, UnreachablePeer
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.reconcile import errors, reconciler
from tftraining_operator.reconcile.store import JobKey, Kind

from tests.unit.builders import IMAGE, JobBuilder, PodBuilder, Raw, a_job
from tests.unit.fakes import FakeCluster, Fault, Operator, at_rest, condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.api.status import Condition


def started(operator: Operator, job: JobBuilder) -> JobKey:
    """Submit a job and let the operator work on it."""
    key = operator.cluster.submit(job.raw)
    operator.settle()
    return key


def running(operator: Operator, job: JobBuilder) -> JobKey:
    """Bring a job to where all its pods are ready."""
    key = started(operator, job)
    operator.cluster.run_pods()
    operator.settle()
    return key


def accepted(cluster: FakeCluster, key: JobKey) -> Condition:
    return condition(cluster, key, ConditionType.ACCEPTED)


def names(cluster: FakeCluster, kind: Kind) -> set[str]:
    return {name for k, _, name in cluster.objects if k is kind}


def told(cluster: FakeCluster) -> list[str]:
    return [event["reason"] for event in cluster.events]


def a_stranger(name: str) -> Raw:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {}}


def test_the_first_pass_makes_service_and_pods_and_sets_every_condition(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = cluster.submit(a_job().with_workers(2).with_evaluator().raw)
    operator.see()
    operator.one_pass(key)
    assert names(cluster, Kind.SERVICE) == {"mnist"}
    tasks = ("chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0")
    assert set(cluster.pods()) == {f"mnist-{task}" for task in tasks}
    assert [c.type for c in cluster.status(key).conditions] == [
        ConditionType.ACCEPTED,
        ConditionType.PODS_READY,
        ConditionType.RUNNING,
        ConditionType.FINISHED,
    ], "others appear when they first say something"
    assert {c.observed_generation for c in cluster.status(key).conditions} == {1}


@pytest.mark.parametrize("failing", range(3, 9))
def test_whichever_call_of_a_start_fails_all_that_was_created_is_told(
    operator: Operator, cluster: FakeCluster, failing: int
) -> None:
    cluster.faults = {failing: Fault.FAILED}
    started(operator, a_job().with_workers(3))
    operator.wait(1)
    notes = [event["note"] for event in cluster.events if event["reason"] == "Created"]
    assert notes == ["created 5 pods and the service"]


@pytest.mark.parametrize("failing", range(1, 7))
def test_whichever_call_fails_all_that_was_replaced_is_told(
    operator: Operator, cluster: FakeCluster, failing: int
) -> None:
    key = running(operator, a_job().with_workers(3))
    cluster.events.clear()
    for index in range(3):
        cluster.act(f"mnist-worker-{index}", lambda pod: pod.exited(137))
    cluster.faults = {cluster.writes + failing: Fault.FAILED}
    operator.wait(12)
    at_rest(operator)
    assert cluster.status(key).state == "Running"
    notes = " ".join(e["note"] for e in cluster.events if e["reason"] in ("Created", "Replacing"))
    assert [notes.count(f"mnist-worker-{index}") for index in range(3)] == [2, 2, 2]


def test_at_rest_a_pass_makes_no_call(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, a_job().with_evaluator())
    assert cluster.status(key).state == "Running"
    before = sum(cluster.calls.values())
    for _ in range(3):
        operator.one_pass(key)
    assert sum(cluster.calls.values()) == before


def test_templates_are_tried_before_there_are_pods_and_when_they_may_have_changed(
    operator: Operator, cluster: FakeCluster
) -> None:
    def edit(image: str = "", **policy: object) -> int:
        before = cluster.calls["dry_run"]

        def change(spec: Raw) -> None:
            spec.setdefault("runPolicy", {}).update(policy)
            if image:
                spec["template"]["spec"]["containers"][0]["image"] = image

        cluster.edit(key, change)
        at_rest(operator)
        return cluster.calls["dry_run"] - before

    key = running(operator, a_job())
    tried = cluster.calls["dry_run"]
    assert tried > 0
    assert edit(backoffLimit=5) == 0, "a running job's templates cannot change"
    assert cluster.status(key).observed_generation == 2
    assert edit(suspend=True) == 0
    assert edit(image="another") == tried, "a suspended job's can"
    assert edit(suspend=False) == 0, "the server would say the same"
    assert cluster.status(key).state == "Running"


def test_no_pod_is_made_of_a_template_that_the_server_refuses_until_it_is_mended(
    operator: Operator, cluster: FakeCluster
) -> None:
    def strict(_kind: Kind, body: Raw) -> errors.ApiError | None:
        bad = "imagePullPolice" in body["spec"].get("containers", [{}])[0]
        words = 'unknown field "spec.containers[0].imagePullPolice"'
        return errors.InvalidObjectError(words, status=422) if bad else None

    cluster.refuse = strict
    key = started(operator, a_job().with_container(imagePullPolice="Always"))
    assert names(cluster, Kind.POD) == set()
    assert accepted(cluster, key).reason == "InvalidTemplate"
    assert "imagePullPolice" in accepted(cluster, key).message
    assert cluster.status(key).state == "InvalidTemplate"
    assert told(cluster) == ["InvalidTemplate"]

    cluster.edit(key, lambda s: s["template"]["spec"]["containers"][0].pop("imagePullPolice"))
    operator.settle()
    assert accepted(cluster, key).status == "True"
    assert len(cluster.pods()) == 3


def refusing_templates(cluster: FakeCluster) -> None:
    """Refuse pods, as a webhook or a policy does."""
    error = errors.InvalidObjectError("the image has no signature", status=422)
    cluster.refuse = lambda kind, _body: error if kind is Kind.POD else None


def occupied(cluster: FakeCluster) -> None:
    cluster._create(Kind.SERVICE, a_stranger("mnist"), dry_run=False)


REJECTED: list[Any] = [
    pytest.param(
        lambda _cluster: None, a_job().with_spec(strategy="Mirrored"), "InvalidSpec", id="a rule"
    ),
    pytest.param(refusing_templates, a_job(), "InvalidTemplate", id="a template"),
    pytest.param(occupied, a_job(), "NameConflict", id="a name"),
    pytest.param(
        lambda _cluster: None,
        a_job().with_spec(scheduling={"gang": "Volcano"}),
        "SchedulerUnavailable",
        id="a scheduler",
    ),
]


@pytest.mark.parametrize(("obstruct", "job", "reason"), REJECTED)
def test_a_job_that_cannot_be_carried_out_is_told_and_ends_at_its_startup_deadline(
    operator: Operator,
    cluster: FakeCluster,
    obstruct: Callable[[FakeCluster], None],
    job: JobBuilder,
    reason: str,
) -> None:
    obstruct(cluster)
    key = started(operator, copy.deepcopy(job))
    assert (accepted(cluster, key).status, accepted(cluster, key).reason) == ("False", reason)
    assert names(cluster, Kind.POD) == set()
    operator.wait(590)
    assert told(cluster) == [reason], "told once"
    operator.wait(20)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert (failed.status, failed.reason) == ("True", reason)
    assert (FAILED, reason) in ENDS, "it is counted from 0"
    assert condition(cluster, key, ConditionType.FINISHED).status == "True", "wait returns"
    assert told(cluster) == [reason, "Failed"]


def test_a_job_that_was_refused_for_good_is_deleted_when_it_has_been_kept_for_long_enough(
    operator: Operator, cluster: FakeCluster
) -> None:
    job = a_job().with_spec(strategy="Mirrored").with_policy(ttlSecondsAfterFinished=3600)
    key = started(operator, job)
    assert accepted(cluster, key).reason == "InvalidSpec"
    operator.wait(601)
    assert cluster.status(key).state == "Failed"
    assert accepted(cluster, key).reason == "InvalidSpec"
    operator.wait(3500)
    assert cluster.status(key).state == "Failed"
    operator.wait(200)
    assert (Kind.JOB, *key) not in cluster.objects


def test_a_refused_template_is_tried_again_and_runs_when_the_policy_is_mended(
    operator: Operator, cluster: FakeCluster
) -> None:
    refusing_templates(cluster)
    key = started(operator, a_job())
    assert accepted(cluster, key).reason == "InvalidTemplate"
    cluster.refuse = lambda _kind, _body: None
    operator.wait(31)
    assert (accepted(cluster, key).status, len(cluster.pods())) == ("True", 3)
    assert cluster.job(key)["metadata"]["generation"] == 1, "nobody edited the job"


def suspended(operator: Operator, key: JobKey, *, value: bool) -> None:
    policy = {"suspend": value}
    operator.cluster.edit(key, lambda spec: spec.setdefault("runPolicy", {}).update(policy))
    at_rest(operator)


def test_a_job_that_ran_is_not_failed_for_a_template_that_is_refused(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    suspended(operator, key, value=True)
    refusing_templates(cluster)
    cluster.edit(key, lambda spec: spec["template"].update(metadata={"labels": {"a": "b"}}))
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.completion_time) == ("InvalidTemplate", None)
    suspended(operator, key, value=False)
    operator.wait(3600)
    assert cluster.status(key).completion_time is None
    cluster.refuse = lambda _kind, _body: None
    operator.wait(31)
    at_rest(operator)
    assert cluster.status(key).state == "Running"


def test_the_startup_deadline_of_a_refused_job_does_not_run_while_it_is_suspended(
    operator: Operator, cluster: FakeCluster
) -> None:
    refusing_templates(cluster)
    key = started(operator, a_job().with_policy(suspend=True))
    assert accepted(cluster, key).reason == "InvalidTemplate"
    operator.wait(3600)
    assert cluster.status(key).completion_time is None
    suspended(operator, key, value=False)
    operator.wait(590)
    assert cluster.status(key).completion_time is None, "it counts from the resumption"
    operator.wait(20)
    assert condition(cluster, key, ConditionType.FAILED).reason == "InvalidTemplate"


def test_a_stranger_with_the_services_name_is_a_conflict_until_it_goes(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster._create(Kind.SERVICE, a_stranger("mnist"), dry_run=False)
    key = started(operator, a_job())
    assert accepted(cluster, key).reason == "NameConflict"
    assert "service mnist exists" in accepted(cluster, key).message
    assert names(cluster, Kind.POD) == set(), "pods without their service would be lost"

    del cluster.objects[Kind.SERVICE, "default", "mnist"]
    operator.wait(31)
    assert accepted(cluster, key).status == "True"
    assert len(cluster.pods()) == 3


def replaced_by_a_strangers(operator: Operator) -> None:
    """Somebody deletes the job's service, and creates one of his own."""
    cluster = operator.cluster
    cluster._drop(Kind.SERVICE, cluster.objects[Kind.SERVICE, "default", "mnist"])
    occupied(cluster)
    operator.settle()


def test_a_job_that_runs_trains_on_when_a_strangers_service_has_its_name(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    before = {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()}
    replaced_by_a_strangers(operator)
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.restarts, status.completion_time) == ("Running", 0, None)
    assert "service mnist exists and does not belong to this job; delete it" in str(status.message)
    assert condition(cluster, key, ConditionType.PODS_READY).reason == "NameConflict"
    assert accepted(cluster, key).status == "True"
    assert {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()} == before


def test_its_lost_chief_and_worker_are_made_again_when_the_strangers_service_is_gone(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    replaced_by_a_strangers(operator)
    cluster.collect("mnist-worker-0")
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    operator.wait(600)
    assert set(cluster.pods()) == {"mnist-ps-0"}, "without the service no pod finds another"
    status = cluster.status(key)
    assert (status.state, status.attempt, status.completion_time) == ("NameConflict", 1, None)
    assert "service mnist exists" in str(status.message)

    del cluster.objects[Kind.SERVICE, "default", "mnist"]
    operator.wait(61)
    at_rest(operator)
    assert cluster.status(key).state == "Running"
    assert told(cluster).count("NameConflict") == 1


def test_a_job_that_is_resumed_while_a_strangers_service_has_its_name_waits_for_it(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    suspended(operator, key, value=True)
    replaced_by_a_strangers(operator)
    suspended(operator, key, value=False)
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.completion_time) == ("NameConflict", None)
    assert accepted(cluster, key).status == "True"
    del cluster.objects[Kind.SERVICE, "default", "mnist"]
    operator.wait(61)
    at_rest(operator)
    assert cluster.status(key).state == "Running"


LONG = "m" * 51
"""With so long a name, TF_CONFIG of a thousand workers is larger than Linux allows."""


@pytest.mark.parametrize("gang", [True, False], ids=["MultiWorkerMirrored", "ParameterServer"])
def test_a_job_that_is_scaled_beyond_what_tf_config_holds_trains_on_as_it_is(
    operator: Operator, cluster: FakeCluster, *, gang: bool
) -> None:
    job = a_job().named(LONG)
    key = running(operator, job.mirrored(workers=2) if gang else job.with_workers(2))
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=1000))
    operator.wait(120)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.cluster_workers) == ("Running", 0, 2)
    assert accepted(cluster, key).status == "True"
    assert f"{LONG}-worker-2: TF_CONFIG would have " in str(status.message)
    assert "use fewer workers than 1,000" in str(status.message)
    assert f"{LONG}-worker-2" not in cluster.pods()

    cluster.act(f"{LONG}-chief-0", lambda pod: pod.exited(1))
    cluster.act(f"{LONG}-worker-1", lambda pod: pod.exited(1))
    operator.wait(5)
    at_rest(operator)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.cluster_workers) == ("Running", 1, 2)

    cluster.edit(key, lambda spec: spec["worker"].update(replicas=2))
    operator.wait(61)
    assert condition(cluster, key, ConditionType.PODS_READY).status == "True"


def test_a_stranger_with_a_pods_name_is_a_conflict_and_stays_untouched(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster._create(Kind.POD, a_stranger("mnist-ps-0"), dry_run=False)
    key = started(operator, a_job())
    assert accepted(cluster, key).reason == "NameConflict"
    assert "pod mnist-ps-0" in accepted(cluster, key).message
    assert "ownerReferences" not in cluster.pods()["mnist-ps-0"]["metadata"]
    assert cluster.calls["delete"] == 0


def test_a_job_made_again_waits_for_the_pods_of_its_predecessor(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    old = {raw["metadata"]["uid"] for raw in cluster.pods().values()}
    cluster.remove_job(key)
    cluster.submit(a_job().raw)
    operator.settle()
    assert {raw["metadata"]["uid"] for raw in cluster.pods().values()} == old
    assert "pods of an earlier job of this name" in (cluster.status(key).message or "")

    for name in list(cluster.pods()):
        cluster.collect(name)
    cluster.collect_garbage()
    operator.settle()
    assert len(cluster.pods()) == 3
    assert not old & {raw["metadata"]["uid"] for raw in cluster.pods().values()}
    assert accepted(cluster, key).status == "True"
    assert "earlier job" not in (cluster.status(key).message or "")


def test_a_job_that_its_predecessors_pods_kept_from_starting_says_so_at_its_deadline(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.remove_job(key)
    cluster.submit(a_job().raw)
    operator.settle()
    operator.wait(601)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert failed.reason == "StartupDeadlineExceeded"
    assert "pods of an earlier job of this name" in failed.message


def test_a_gang_that_waits_for_its_predecessors_pods_blames_no_scheduler(
    cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    operator = Operator(cluster, runner, offer=Offer({Gang.IN_TREE: "v1beta1"}))
    key = running(operator, a_job())
    cluster.remove_job(key)
    cluster.submit(a_job().raw)
    operator.wait(20)
    status = cluster.status(key)
    assert status.gang is not None, "the job has one"
    assert "pods of an earlier job of this name have not ended yet" in str(status.message)
    assert status.state == "Starting"
    at_rest(operator)
    assert "earlier job" not in str(cluster.status(key).message)


@pytest.mark.parametrize(
    ("kind", "name", "what"),
    [
        (Kind.NETWORK_POLICY, "mnist-isolation", "NetworkPolicy mnist-isolation"),
        (Kind.SERVICE, "mnist", "service mnist"),
    ],
)
def test_a_job_made_again_says_what_of_its_predecessor_somebody_keeps(
    operator: Operator, cluster: FakeCluster, kind: Kind, name: str, what: str
) -> None:
    """As a controller does that is away, and whose finalizer is on each NetworkPolicy."""
    key = running(operator, a_job())
    kept = cluster.objects[kind, "default", name]
    cluster.change(kind, kept, lambda raw: raw["metadata"].update(finalizers=["example.com/a"]))
    cluster.remove_job(key)
    cluster.submit(a_job().raw)
    for pod in list(cluster.pods()):
        cluster.collect(pod)
    cluster.collect_garbage()
    operator.settle()
    said = f"{what} of an earlier job of this name is not gone yet: see its finalizers"
    assert said in str(cluster.status(key).message)
    operator.wait(601)
    assert said in condition(cluster, key, ConditionType.FAILED).message


@pytest.mark.parametrize(
    "spec",
    [
        {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}},
        {"runPolicy": {"managedBy": "example.com/queue"}},
        {"managedBy": "example.com/queue"},
        {"managedBy": "kueue.x-k8s.io/multikueue", "runPolicy": {"managedBy": "example.com/queue"}},
    ],
)
def test_a_job_of_another_manager_is_left_alone(
    operator: Operator, cluster: FakeCluster, spec: Raw
) -> None:
    started(operator, a_job().with_spec(**spec))
    assert sum(cluster.calls.values()) == 0


def test_a_job_that_is_being_deleted_gets_nothing_new(
    operator: Operator, cluster: FakeCluster
) -> None:
    job = a_job()
    job.raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    started(operator, job)
    assert sum(cluster.calls.values()) == 0


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        pytest.param({"startupDeadlineSeconds": 60}, "StartupDeadlineExceeded", id="to start"),
        pytest.param({"activeDeadlineSeconds": 60}, "DeadlineExceeded", id="to finish"),
    ],
)
def test_a_deadline_falls_due_though_nothing_happens(
    operator: Operator, cluster: FakeCluster, policy: dict[str, int], reason: str
) -> None:
    key = started(operator, a_job().with_policy(**policy))
    operator.wait(59)
    assert cluster.status(key).state == "Starting"
    operator.wait(2)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert (failed.status, failed.reason) == ("True", reason)


def report(operator: Operator, **fields: Any) -> None:
    """Have the chief report now."""
    found = Report(received=operator.cluster.clock(), **fields)
    operator.progress.told[Role.CHIEF] = found


def reporting(operator: Operator, seconds: int, **fields: Any) -> None:
    """Let time pass while the chief reports that it makes no step."""
    for _ in range(seconds):
        operator.wait(1)
        report(operator, **fields)
        operator.look(JobKey("default", "mnist"))
    operator.settle()


def test_a_chief_that_makes_no_step_from_its_start_is_a_stall(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_policy(stallTimeoutSeconds=60))
    reporting(operator, 58)
    assert cluster.status(key).restarts == 0
    reporting(operator, 4)
    assert cluster.status(key).restarts == 1
    assert cluster.made["mnist-chief-0"] == 1, "its name is taken until it is gone"
    cluster.collect("mnist-chief-0")
    operator.settle()
    assert cluster.made["mnist-chief-0"] == 2
    assert condition(cluster, key, ConditionType.STALLED).status == "True"

    cluster.run_pods()
    operator.settle()
    reporting(operator, 2)
    assert condition(cluster, key, ConditionType.STALLED).status == "False"


def test_a_stalled_job_has_neither_speed_nor_time_left(
    operator: Operator, cluster: FakeCluster
) -> None:
    def shown() -> tuple[int, str | None, int | None, str | None]:
        found = cluster.status(key).progress
        assert found is not None
        return found.step, found.steps_per_second, found.eta_seconds, found.eta_text

    key = running(operator, a_job())
    trains = {"step": 100, "total_steps": 1000, "steps_per_second": 2.5}
    reporting(operator, 2, **trains, seconds_since_step=0.1)
    assert shown() == (100, "2.5", 360, "6m")
    reporting(operator, 2, **trains, seconds_since_step=90)
    assert condition(cluster, key, ConditionType.STALLED).status == "True"
    assert shown() == (100, None, None, None)
    writes = cluster.calls["patch_status"]
    reporting(operator, 20, **trains, seconds_since_step=110)
    assert cluster.calls["patch_status"] == writes
    cluster.act("mnist-chief-0", lambda pod: pod.exited(76))
    at_rest(operator)
    assert shown() == (100, None, None, None)
    reporting(operator, 10, **trains | {"step": 150}, seconds_since_step=0.1)
    assert shown() == (150, "2.5", 340, "5m40s")


def test_a_time_without_reports_is_no_stall(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, a_job().with_policy(stallTimeoutSeconds=60))
    reporting(operator, 3, step=5, seconds_since_step=0.1)
    operator.wait(400)
    operator.look(key)  # as the poller asks once the last report is too old
    operator.settle()
    status = cluster.status(key)
    assert (status.restarts, status.attempt, status.state) == (0, 0, "Running")
    stalled = condition(cluster, key, ConditionType.STALLED)
    assert (stalled.status, stalled.reason) == ("Unknown", "NoReport")
    reporting(operator, 2, step=900, seconds_since_step=0.1)
    assert condition(cluster, key, ConditionType.STALLED).status == "False"


def test_no_report_is_missed_before_the_chiefs_turn_to_be_asked(
    operator: Operator, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator.progress, "count", lambda: 2050)
    key = running(operator, a_job())
    operator.wait(65)
    operator.look(key)
    operator.settle()
    assert find(cluster.status(key).conditions, ConditionType.STALLED) is None
    operator.wait(10)
    operator.look(key)
    operator.settle()
    assert condition(cluster, key, ConditionType.STALLED).reason == "NoReport"


def test_an_operator_that_was_away_for_longer_than_the_stall_timeout_restarts_nothing(
    operator: Operator, cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    key = running(operator, a_job().with_policy(stallTimeoutSeconds=300))
    reporting(operator, 3, step=5, seconds_since_step=0.1)
    cluster.clock.now += timedelta(seconds=310)
    new = Operator(cluster, runner)
    new.settle()
    reporting(new, 5, step=900, seconds_since_step=0.1)
    status = cluster.status(key)
    assert (status.restarts, status.attempt, status.state) == (0, 0, "Running")


def test_pods_that_became_ready_while_the_operator_was_away_are_not_failed(
    operator: Operator, cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    key = started(operator, a_job().with_policy(startupDeadlineSeconds=60))
    cluster.run_pods()
    cluster.clock.now += timedelta(seconds=300)
    new = Operator(cluster, runner)
    new.settle()
    assert cluster.status(key).state == "Running"


def test_the_startup_deadline_is_for_the_first_start_alone(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_policy(startupDeadlineSeconds=60))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(75))
    operator.settle()
    cluster.collect("mnist-chief-0")
    operator.wait(3600)
    assert cluster.status(key).state == "Restarting"


def test_a_recovery_deadline_ends_a_job_that_does_not_run_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_policy(recoveryDeadlineSeconds=100))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(75))
    operator.settle()
    cluster.collect("mnist-chief-0")
    operator.wait(99)
    assert cluster.status(key).state == "Restarting"
    operator.wait(2)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert failed.reason == "RecoveryDeadlineExceeded"


def scaled(operator: Operator, workers: int) -> None:
    key = JobKey("default", "mnist")
    operator.cluster.edit(key, lambda spec: spec["worker"].update(replicas=workers))
    operator.settle()


def test_more_workers_without_room_leave_the_training_alone(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_workers(2))
    scaled(operator, 4)
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 0, 0)
    assert cluster.made["mnist-chief-0"] == 1
    scaled(operator, 2)
    at_rest(operator)
    assert cluster.status(key).attempt == 0
    assert set(cluster.pods()) == {
        f"mnist-{t}" for t in ("chief-0", "worker-0", "worker-1", "ps-0")
    }


def pulls_in_vain(pod: PodBuilder) -> None:
    pod.raw["spec"]["nodeName"] = "node-1"
    pod.waiting("ErrImagePull", "manifest unknown")


def test_a_new_member_that_cannot_start_leaves_its_gang_alone(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().mirrored(workers=2))
    scaled(operator, 3)
    cluster.act("mnist-worker-2", pulls_in_vain)
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 0, 0)
    assert "ImagePullBackOff: mnist-worker-2: " in (status.message or "")
    assert cluster.made["mnist-chief-0"] == 1

    cluster.act("mnist-worker-2", lambda pod: pod.running(ready=False, seconds=3600))
    operator.wait(25)
    at_rest(operator)
    assert cluster.status(key).attempt == 1
    assert told(cluster).count("Scaled") == 1


def test_a_new_member_that_the_chief_does_not_expect_yet_is_no_failure(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().mirrored(workers=2))
    scaled(operator, 3)
    said = "InvalidArgumentError: Unexpected task registered with task_name=/job:worker/task:2"
    cluster.act("mnist-worker-2", lambda pod: pod.exited(1, said))
    operator.settle()
    at_rest(operator)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.cluster_workers) == ("Running", 1, 3)
    assert status.first_failure is None
    assert {"ExitCode", "Replacing"}.isdisjoint(told(cluster))


def test_a_gang_that_fails_meanwhile_trains_on_without_the_new_member(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().mirrored(workers=2))
    scaled(operator, 3)
    cluster.act("mnist-worker-2", pulls_in_vain)
    cluster.act("mnist-worker-0", lambda pod: pod.exited(1))
    operator.wait(5)
    for _ in range(3):
        for name, raw in cluster.pods().items():
            if "deletionTimestamp" in raw["metadata"]:
                cluster.collect(name)
            elif name != "mnist-worker-2" and raw["status"]["phase"] == "Pending":
                cluster.act(name, PodBuilder.running)
            elif raw["status"]["phase"] == "Pending":
                cluster.act(name, pulls_in_vain)
        operator.wait(20)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 1, 1)
    assert status.cluster_workers == 2


def test_a_gangs_node_whose_clock_is_ahead_does_not_keep_it_from_growing(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().mirrored(workers=2))
    scaled(operator, 3)
    cluster.act("mnist-worker-2", lambda pod: pod.running(ready=False, seconds=7200))
    operator.wait(25)
    at_rest(operator)
    assert cluster.status(key).attempt == 1


def test_six_steps_of_an_autoscaler_cost_one_restart(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_workers(2))
    for workers in range(3, 9):
        scaled(operator, workers)
        cluster.run_pods()
        operator.wait(15)
    operator.wait(30)
    at_rest(operator)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 1, 0)
    assert cluster.made["mnist-chief-0"] == 2
    assert told(cluster).count("Scaled") == 1


def test_fewer_workers_end_the_chief_before_the_workers(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, a_job().with_workers(3))
    scaled(operator, 1)
    going = {n for n, raw in cluster.pods().items() if "deletionTimestamp" in raw["metadata"]}
    assert going == {"mnist-chief-0"}, "it saves while its servers still serve"
    at_rest(operator)
    assert set(cluster.pods()) == {"mnist-chief-0", "mnist-worker-0", "mnist-ps-0"}


def test_a_suspension_ends_the_chief_before_its_servers(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.suspend(key)
    operator.settle()
    going = {n for n, raw in cluster.pods().items() if "deletionTimestamp" in raw["metadata"]}
    assert going == {"mnist-chief-0"}
    at_rest(operator)
    assert cluster.pods() == {}


def test_a_job_that_is_resumed_before_its_suspension_is_done_gets_all_pods_anew(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.suspend(key)
    operator.settle()
    assert set(cluster.pods()) == {"mnist-chief-0", "mnist-ps-0", "mnist-worker-0"}

    def correct(spec: Raw) -> None:
        spec["template"]["spec"]["containers"][0]["image"] = "corrected"
        spec["runPolicy"]["suspend"] = False

    cluster.edit(key, correct)
    at_rest(operator)
    assert cluster.status(key).state == "Running"
    images = {raw["spec"]["containers"][0]["image"] for raw in cluster.pods().values()}
    assert images == {"corrected"}, "the servers too"
    assert "Resumed" in told(cluster)
    assert cluster.status(key).restarts == 0


@pytest.mark.parametrize("image", ["corrected", None])
def test_a_job_that_is_suspended_and_resumed_unseen_has_pods_of_what_it_is_now(
    operator: Operator, cluster: FakeCluster, image: str | None
) -> None:
    key = running(operator, a_job())
    before = {raw["metadata"]["uid"] for raw in cluster.pods().values()}

    def change(spec: Raw) -> None:
        if image:
            spec["template"]["spec"]["containers"][0]["image"] = image
        spec["runPolicy"]["suspend"] = False

    cluster.suspend(key)
    cluster.edit(key, change)
    at_rest(operator)
    assert cluster.status(key).state == "Running"
    pods = cluster.pods().values()
    assert {raw["spec"]["containers"][0]["image"] for raw in pods} == {image or IMAGE}
    kept = before & {raw["metadata"]["uid"] for raw in pods}
    assert kept == (set() if image else before)
    assert cluster.status(key).last_restart is None


def test_a_job_that_is_resumed_as_it_was_while_its_chief_saves_has_lost_no_chief(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    before = {raw["metadata"]["uid"] for raw in cluster.pods().values()}
    cluster.suspend(key)
    operator.settle()
    cluster.resume(key)
    at_rest(operator)
    assert cluster.status(key).state == "Running"
    assert not before & {raw["metadata"]["uid"] for raw in cluster.pods().values()}
    assert cluster.status(key).last_restart is None
    assert {"Suspended", "Resumed"} < set(told(cluster))
    assert "Restarting" not in told(cluster)


def test_a_deadline_ends_the_chief_before_its_servers(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, a_job().with_policy(activeDeadlineSeconds=60))
    operator.wait(61)
    going = {n for n, raw in cluster.pods().items() if "deletionTimestamp" in raw["metadata"]}
    assert going == {"mnist-chief-0"}
    at_rest(operator)
    assert cluster.pods() == {}


def test_a_chief_that_vanished_is_followed_by_one_of_a_higher_attempt(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.collect("mnist-chief-0")
    at_rest(operator)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 1, 0)
    env = cluster.pods()["mnist-chief-0"]["spec"]["containers"][0]["env"]
    assert {"name": "TFTRAINING_ATTEMPT", "value": "1"} in env
    assert status.last_restart is not None
    assert status.last_restart.reason == "ChiefLost"


def test_a_chief_that_was_taken_away_and_is_gone_was_disrupted(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    # Drained: it saves, and is gone with exit code 0.
    cluster.act("mnist-chief-0", lambda pod: pod.disrupted().deleting())
    operator.settle()
    cluster.collect("mnist-chief-0")
    at_rest(operator)
    restart = cluster.status(key).last_restart
    assert restart is not None
    assert (restart.reason, restart.counted) == ("Disrupted", False)
    assert restart.message.startswith("mnist-chief-0 was disrupted (EvictionByEvictionAPI); ")

    # The next one is deleted by somebody; what happened to the one before is no reason.
    operator.wait(60)
    cluster.collect("mnist-chief-0")
    at_rest(operator)
    restart = cluster.status(key).last_restart
    assert restart is not None
    assert (restart.reason, restart.counted) == ("ChiefLost", False)


def test_a_resumed_jobs_chief_has_a_higher_attempt_too(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    for suspend in (True, False):
        policy = {"suspend": suspend}
        cluster.edit(key, lambda spec, p=policy: spec.setdefault("runPolicy", {}).update(p))
        at_rest(operator)
    status = cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 1, 0)


def test_a_forged_condition_ends_no_job(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, a_job())
    forged = {"type": "Finished", "status": "True", "reason": "Forged", "message": "over"}
    forged |= {"lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1}

    def forge(status: Raw) -> None:
        status["conditions"] = [c for c in status["conditions"] if c["type"] != "Finished"]
        status["conditions"].append(forged)

    cluster.tamper(key, forge)
    at_rest(operator)
    assert len(cluster.pods()) == 3
    assert condition(cluster, key, ConditionType.FINISHED).status == "False"


def test_garbage_in_the_status_is_repaired_and_told_once(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_workers(2))
    cluster.tamper(key, lambda status: status.update(startTime="garbage", restarts=-5))
    at_rest(operator)
    status = cluster.status(key)
    assert (status.restarts, status.state) == (0, "Running")
    assert status.start_time != "garbage"
    cluster.collect("mnist-worker-0")
    at_rest(operator)
    assert cluster.made["mnist-worker-0"] == 2
    assert told(cluster).count("StatusRepaired") == 2, "one for each field, once"


def test_a_gone_job_makes_no_more_passes(operator: Operator, cluster: FakeCluster) -> None:
    key = cluster.submit(a_job().raw)
    operator.see()
    cluster.failing["patch_status"] = [errors.NotFoundError("not found", status=404)]
    assert operator.one_pass(key) is None
    calls = sum(cluster.calls.values())
    for _ in range(20):
        assert operator.one_pass(key) is None
    assert sum(cluster.calls.values()) == calls


def test_quota_stops_the_creation_early_and_is_asked_at_a_time_of_its_own(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster.refuse = lambda kind, _body: (
        errors.ForbiddenError("exceeded quota: q", status=403)
        if kind is Kind.POD and len(cluster.pods()) >= 100
        else None
    )
    key = started(operator, a_job().with_workers(200).with_policy(startupDeadlineSeconds=9999))
    refused = cluster.calls["create"] - 1 - len(cluster.pods())
    assert len(cluster.pods()) == 100
    assert refused <= 64
    before = cluster.calls["create"]
    cluster.run_pods()
    operator.settle()
    assert cluster.calls["create"] == before, "a hundred pod events ask for nothing"
    operator.wait(120)
    assert cluster.calls["create"] - before <= 5
    assert cluster.status(key).state == "QuotaExceeded"


def test_a_refused_service_is_told_and_tried_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster.refuse = lambda kind, _body: (
        errors.ForbiddenError("exceeded quota: services", status=403)
        if kind is Kind.SERVICE
        else None
    )
    key = started(operator, a_job())
    status = cluster.status(key)
    assert status.state == "QuotaExceeded"
    assert status.message == (
        "service mnist: exceeded quota: services; raise the quota, or wait for room in it:"
        " creation is retried"
    )
    assert cluster.pods() == {}, "without the service no pod would find another"
    cluster.refuse = lambda _kind, _body: None
    operator.wait(16)
    assert len(cluster.pods()) == 3


UNANSWERED = errors.AdmissionUnavailableError(
    'Internal error occurred: failed calling webhook "pods.example.com": connection refused',
    status=500,
)


def silent_webhook(cluster: FakeCluster, kind: Kind = Kind.POD) -> None:
    """Let a webhook that has to admit objects of a kind be away."""
    cluster.refuse = lambda of, _body: UNANSWERED if of is kind else None


@pytest.mark.parametrize("kind", [Kind.POD, Kind.SERVICE])
def test_a_new_job_says_that_a_webhook_does_not_answer_and_starts_when_it_does(
    operator: Operator, cluster: FakeCluster, kind: Kind
) -> None:
    silent_webhook(cluster, kind)
    key = started(operator, a_job())
    status = cluster.status(key)
    assert (status.state, accepted(cluster, key).status) == ("Refused", "True")
    assert 'failed calling webhook "pods.example.com"' in str(status.message)
    assert told(cluster).count("Refused") == 1
    cluster.refuse = lambda _kind, _body: None
    operator.wait(16)
    at_rest(operator)
    assert cluster.status(key).state == "Running"


@pytest.mark.parametrize("kind", [Kind.POD, Kind.SERVICE])
def test_a_new_job_waits_for_a_webhooks_answer_however_long_that_takes(
    operator: Operator, cluster: FakeCluster, kind: Kind
) -> None:
    silent_webhook(cluster, kind)
    key = started(operator, a_job().with_policy(activeDeadlineSeconds=1800))
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.start_time) == ("Refused", None)
    cluster.refuse = lambda _kind, _body: None
    operator.wait(61)
    assert cluster.status(key).start_time is not None
    at_rest(operator)
    assert cluster.status(key).state == "Running"


def test_a_webhook_that_does_not_answer_for_a_moment_costs_no_more_than_that(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_workers(2))
    silent_webhook(cluster)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    operator.wait(1)
    status = cluster.status(key)
    assert (status.restarts, status.state) == (1, "Refused")
    assert "failed calling webhook" in condition(cluster, key, ConditionType.PODS_READY).message
    cluster.refuse = lambda _kind, _body: None
    operator.wait(1)
    at_rest(operator)
    assert (cluster.status(key).state, cluster.status(key).restarts) == ("Running", 1)

    silent_webhook(cluster)
    cluster.collect("mnist-worker-0")
    before = cluster.calls["create"]
    operator.wait(3600)
    assert cluster.calls["create"] - before < 80, "it is asked less and less often"


def test_a_refused_deletion_is_told_and_tried_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    words = "admission webhook denied the request"
    cluster.failing["delete"] = [errors.ForbiddenError(words, status=403)] * 2
    cluster.suspend(key)
    operator.settle()
    suspended = condition(cluster, key, ConditionType.SUSPENDED)
    assert suspended.reason == "DeletionRefused"
    assert suspended.message == (
        f"could not delete pod mnist-chief-0: {words}; allow the operator's ServiceAccount to"
        " delete it: deletion is retried"
    )
    status = cluster.status(key)
    assert (status.state, status.message) == ("DeletionRefused", suspended.message)
    operator.wait(60)
    at_rest(operator)
    assert cluster.pods() == {}
    assert condition(cluster, key, ConditionType.SUSPENDED).reason == "Suspended"


def test_of_a_webhook_that_does_not_answer_a_deletion_no_permission_is_said_to_be_missing(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.failing["delete"] = [UNANSWERED] * 3
    cluster.suspend(key)
    operator.settle()
    assert cluster.status(key).message == (
        f"could not delete pod mnist-chief-0: {UNANSWERED.message}; deletion is retried"
    )
    operator.wait(120)
    at_rest(operator)
    assert cluster.status(key).state == "Suspended"


NOT_AT_NIGHT = errors.ForbiddenError("denied: not at night", status=403)


def undeletable(*pods: str) -> str:
    """What is said of pods whose deletion an admission policy refuses."""
    count = "pods" if len(pods) > 1 else "pod"
    them = "them" if len(pods) > 1 else "it"
    return (
        f"could not delete {count} {', '.join(pods)}: denied: not at night; allow the operator's"
        f" ServiceAccount to delete {them}: deletion is retried"
    )


def test_a_job_that_cannot_shrink_says_which_pods_are_not_deleted(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_workers(3))
    cluster.failing["delete"] = [NOT_AT_NIGHT] * 3
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=1))
    operator.settle()
    said = undeletable("mnist-chief-0")
    found = condition(cluster, key, ConditionType.PODS_READY)
    assert (found.reason, found.message) == ("DeletionRefused", said)
    assert condition(cluster, key, ConditionType.RESTARTING).reason == "Scaled"
    assert (cluster.status(key).state, cluster.status(key).message) == ("DeletionRefused", said)
    assert told(cluster).count("DeletionRefused") == 1

    operator.wait(120)
    at_rest(operator)
    assert (cluster.status(key).state, len(cluster.pods())) == ("Running", 3)


def test_a_running_job_with_a_pod_that_cannot_be_replaced_says_so(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_workers(2))
    cluster.failing["delete"] = [NOT_AT_NIGHT]
    cluster.act("mnist-worker-0", lambda pod: pod.evicted())
    operator.wait(12)
    found = condition(cluster, key, ConditionType.PODS_READY)
    assert (found.reason, found.message) == ("DeletionRefused", undeletable("mnist-worker-0"))
    status = cluster.status(key)
    assert (status.state, status.message) == ("Running", f"DeletionRefused: {found.message}")


def test_a_reboot_of_the_chiefs_node_is_no_failure_of_the_job(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_policy(backoffLimit=0))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(255, reason="Unknown"))
    operator.settle()
    cluster.run_pods()
    operator.settle()
    status = cluster.status(key)
    assert (status.state, status.attempt, status.restarts) == ("Running", 1, 0)
    assert status.last_restart is not None
    assert status.last_restart.reason == "Disrupted"
    assert "mnist-chief-0 was disrupted (ContainerStatusUnknown)" in status.last_restart.message


@pytest.mark.parametrize("code", [0, 64], ids=["succeeded", "failed"])
def test_what_a_lost_node_holds_of_an_ended_job_is_deleted_by_force(
    operator: Operator, cluster: FakeCluster, code: int
) -> None:
    running(operator, a_job())
    for name in ("mnist-ps-0", "mnist-worker-0"):
        cluster.lose_node(name)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(code))
    operator.wait(200)
    assert set(cluster.pods()) == {"mnist-chief-0"}
    assert "Replacing" not in told(cluster)


def test_a_chief_that_was_made_beside_the_scaling_of_its_cluster_gets_to_know_it(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator, a_job())
    for name in ("mnist-ps-0", "mnist-worker-0"):
        cluster.act(name, lambda pod: pod.running())
    operator.settle()
    successor = Operator(cluster, operator.runner, instance="successor")
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    operator.see()
    for _ in range(2):  # the restart, and the end of the chief
        operator.one_pass(key)
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=3))
    with pytest.raises(errors.ConflictError):
        operator.one_pass(key)
    told = [(what, raw["metadata"]["name"]) for _, what, _, raw in successor._unread(Kind.POD)]
    # It has listed the pods before the chief was made, and the job after it was scaled.
    successor.see({**dict.fromkeys(Kind, 99), Kind.POD: told.index(("ADDED", "mnist-chief-0"))})
    successor.settle(watching=False)
    assert cluster.status(key).cluster_workers == 3

    for _ in range(3):
        cluster.run_pods()
        successor.wait(30)
    status = cluster.status(key)
    assert (status.state, status.cluster_workers, status.restarts) == ("Running", 3, 1)
    chief = cluster.pods()["mnist-chief-0"]
    assert chief["metadata"]["annotations"]["tftraining.dev/workers"] == "3"


def test_a_chief_of_an_older_operator_that_wrote_its_workers_otherwise_trains_on(
    operator: Operator, cluster: FakeCluster
) -> None:
    def wrote(raw: Raw) -> None:
        del raw["metadata"]["annotations"][keys.ANNOTATION_SPEC]
        for variable in raw["spec"]["containers"][0]["env"]:
            if variable["name"] == CLUSTER_WORKERS:
                variable["value"] = "worker-0,worker-1"

    key = running(operator, a_job().with_workers(2))
    cluster.change(Kind.POD, cluster.pods()["mnist-chief-0"], wrote)
    Operator(cluster, operator.runner).wait(600)
    assert (cluster.status(key).state, cluster.status(key).attempt) == ("Running", 0)


@pytest.mark.parametrize(
    ("code", "state", "after"), [(0, "Succeeded", "ChiefSucceeded"), (64, "Failed", "Failed")]
)
def test_an_ended_job_says_which_pods_go_on_running_until_they_are_deleted(
    operator: Operator, cluster: FakeCluster, code: int, state: str, after: str
) -> None:
    key = running(operator, a_job())
    cluster.failing["delete"] = [NOT_AT_NIGHT] * 2
    cluster.failing["delete_servers"] = [NOT_AT_NIGHT]
    cluster.act("mnist-chief-0", lambda pod: pod.exited(code))
    operator.settle()
    said = undeletable("mnist-ps-0", "mnist-worker-0")
    found = condition(cluster, key, ConditionType.PODS_READY)
    assert (found.status, found.reason, found.message) == ("False", "DeletionRefused", said)
    status = cluster.status(key)
    end = condition(cluster, key, ConditionType(state)).message
    assert (status.state, status.message) == (state, f"{end}; {said}")
    assert told(cluster).count("DeletionRefused") == 1

    operator.wait(60)
    at_rest(operator)
    assert set(cluster.pods()) == {"mnist-chief-0"}
    assert condition(cluster, key, ConditionType.PODS_READY).reason == after
    assert cluster.status(key).message == end
    written = len(cluster.statuses)
    operator.wait(600)
    assert len(cluster.statuses) == written


def test_a_job_whose_last_checkpoint_is_evaluated_says_which_servers_are_not_deleted(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_evaluator())
    cluster.failing["delete"] = [NOT_AT_NIGHT] * 2
    cluster.failing["delete_servers"] = [NOT_AT_NIGHT]
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.settle()
    said = undeletable("mnist-ps-0", "mnist-worker-0")
    found = condition(cluster, key, ConditionType.PODS_READY)
    assert (found.reason, found.message) == ("DeletionRefused", said)
    assert cluster.status(key).state == "Evaluating"
    assert (cluster.status(key).message or "").endswith(f"; {said}")


def test_a_short_deadline_falls_due_while_pods_are_refused(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster.refuse = lambda kind, _body: (
        errors.ForbiddenError("exceeded quota", status=403) if kind is Kind.POD else None
    )
    key = started(operator, a_job().with_policy(activeDeadlineSeconds=4))
    operator.wait(5)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert failed.reason == "DeadlineExceeded"


def test_a_service_that_selects_no_pod_any_more_is_made_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, a_job())
    raw = cluster.objects[Kind.SERVICE, "default", "mnist"]
    cluster.change(Kind.SERVICE, raw, lambda body: body["spec"].update(selector={"app": "x"}))
    at_rest(operator)
    selector = cluster.objects[Kind.SERVICE, "default", "mnist"]["spec"]["selector"]
    assert selector == {keys.LABEL_JOB_UID: "uid-1"} or keys.LABEL_JOB_UID in selector
    assert set(cluster.made.values()) == {1}


def test_a_changed_service_that_may_not_be_deleted_is_told_and_stops_no_job(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.failing["delete"] = [NOT_AT_NIGHT] * 3
    service = cluster.objects[Kind.SERVICE, "default", "mnist"]
    cluster.change(Kind.SERVICE, service, lambda raw: raw["spec"].update(selector={"app": "x"}))
    operator.settle()
    found = condition(cluster, key, ConditionType.PODS_READY)
    said = "service mnist: somebody changed it, and it could not be deleted to be created again"
    assert (found.reason, cluster.status(key).state) == ("DeletionRefused", "Running")
    assert found.message.startswith(f"{said}: denied: not at night; allow the operator")

    cluster.act("mnist-worker-0", lambda pod: pod.evicted())
    cluster.collect("mnist-worker-0")
    operator.wait(1)
    assert cluster.made["mnist-worker-0"] == 2, "the job is managed meanwhile"
    assert told(cluster).count("DeletionRefused") == 1

    operator.wait(120)
    at_rest(operator)
    made = cluster.objects[Kind.SERVICE, "default", "mnist"]["spec"]["selector"]
    assert keys.LABEL_JOB_UID in made
    assert condition(cluster, key, ConditionType.PODS_READY).status == "True"


@pytest.mark.parametrize("policy", [{}, {"recoveryDeadlineSeconds": 60}])
def test_a_job_that_does_not_run_in_time_for_lack_of_dns_says_so(
    operator: Operator, cluster: FakeCluster, policy: dict[str, int]
) -> None:
    key = cluster.submit(a_job().with_policy(startupDeadlineSeconds=60, **policy).raw)
    operator.settle()
    if policy:
        cluster.run_pods()
        operator.settle()
        cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
        operator.wait(1)
    for name in ("mnist-ps-0", "mnist-worker-0"):
        cluster.act(name, PodBuilder.running)
    for second in range(80):
        if "mnist-chief-0" in cluster.pods():
            cluster.act("mnist-chief-0", lambda pod: pod.running(ready=False))
        peer = UnreachablePeer(
            task="worker-0", seconds=second, cause=PeerCause.NOT_RESOLVED, reason="no such name"
        )
        operator.progress.told = {
            Role.CHIEF: Report(
                waiting_for=["worker-0"], unreachable=[peer], received=cluster.clock()
            )
        }
        operator.look(key)
        operator.wait(1)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert failed.reason.endswith("DeadlineExceeded")
    assert failed.message.endswith(
        "not ready: mnist-chief-0; DNS does not resolve mnist-worker-0: check Service mnist and"
        " the DNS of the cluster"
    )


def test_lost_dns_replaces_no_server(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, a_job().with_workers(3))
    tasks = ("worker-0", "worker-1", "worker-2", "ps-0")
    for second in range(60):
        peers = [
            UnreachablePeer(task=t, seconds=second, cause=PeerCause.NOT_RESOLVED) for t in tasks
        ]
        reporting(operator, 1, step=5, unreachable=peers)
    assert set(cluster.made.values()) == {1}
    assert cluster.status(key).attempt == 0


def test_a_chief_that_is_cut_off_costs_no_server(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, a_job().with_workers(3))
    tasks = ("worker-0", "worker-1", "worker-2", "ps-0")
    for second in range(110):
        peers = [UnreachablePeer(task=t, seconds=second, cause=PeerCause.TIMED_OUT) for t in tasks]
        reporting(operator, 1, step=5, unreachable=peers)
    assert set(cluster.made.values()) == {1}
    running_now = condition(cluster, key, ConditionType.RUNNING)
    assert "the chief cannot reach 4 of 4 servers" in running_now.message


def test_a_server_that_stays_out_of_reach_is_replaced_ever_more_slowly(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, a_job().with_workers(3))
    for _ in range(300):
        peers = [UnreachablePeer(task="worker-1", seconds=30, cause=PeerCause.TIMED_OUT)]
        reporting(operator, 1, step=5, unreachable=peers)
        cluster.run_pods()
    assert 3 <= cluster.made["mnist-worker-1"] <= 6


def test_a_pod_of_a_lost_node_that_the_job_needs_no_more_is_not_said_to_be_replaced(
    operator: Operator, cluster: FakeCluster
) -> None:
    job = a_job().with_workers(2).with_evaluator().with_policy(evaluatorGraceSeconds=1000)
    key = running(operator, job)
    cluster.lose_node("mnist-worker-1")
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=1))
    operator.wait(10)
    cluster.run_pods()
    operator.wait(200)
    cluster.run_pods()
    operator.settle()
    assert cluster.status(key).state == "Running"
    cluster.lose_node("mnist-ps-0")
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.wait(200)
    assert cluster.status(key).state == "Evaluating"
    assert not cluster.pods().keys() & {"mnist-worker-1", "mnist-ps-0"}
    assert "Replacing" not in [event["reason"] for event in cluster.events]


def test_a_job_is_deleted_when_its_time_to_live_is_over(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_policy(ttlSecondsAfterFinished=100))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.wait(99)
    assert cluster.status(key).state == "Succeeded"
    operator.wait(2)
    assert (Kind.JOB, *key) not in cluster.objects


def test_what_quota_refuses_is_told_and_tried_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    def full(kind: Kind, body: Raw) -> errors.ApiError | None:
        if kind is Kind.POD and len(cluster.pods()) >= 2 and body["metadata"]["name"]:
            return errors.ForbiddenError("exceeded quota: team-a, requested: pods=1", status=403)
        return None

    cluster.refuse = full
    key = started(operator, a_job())
    assert len(cluster.pods()) == 2
    status = cluster.status(key)
    assert status.state == "QuotaExceeded"
    assert status.message == (
        "mnist-chief-0: exceeded quota: team-a, requested: pods=1; raise the quota, or"
        " wait for room in it: creation is retried"
    )
    assert status.last_failure is not None
    assert status.last_failure.reason == "QuotaExceeded"

    cluster.refuse = lambda _kind, _body: None
    operator.wait(14)
    assert len(cluster.pods()) == 2
    operator.wait(2)
    assert len(cluster.pods()) == 3


def test_one_pod_that_cannot_be_made_now_does_not_keep_the_others(
    operator: Operator, cluster: FakeCluster
) -> None:
    busy = [errors.TransientError("busy", status=500)]
    cluster.refuse = lambda _kind, body: (
        busy.pop() if busy and body["metadata"]["name"] == "mnist-worker-1" else None
    )
    key = cluster.submit(a_job().with_workers(3).raw)
    operator.see()
    with pytest.raises(errors.TransientError):
        operator.one_pass(key)
    assert len(cluster.pods()) == 4
    operator.wait(1)
    assert len(cluster.pods()) == 5
    assert set(cluster.made.values()) == {1}


def test_a_changed_job_is_read_again_before_its_status_is_written(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_policy(backoffLimit=1))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    operator.see()
    cluster.edit(key, lambda spec: spec["runPolicy"].update(backoffLimit=0))
    with pytest.raises(errors.ConflictError):
        operator.one_pass(key)
    assert cluster.status(key).restarts == 0
    operator.settle()
    assert cluster.status(key).state == "Failed"
    assert cluster.status(key).restarts == 0


def test_a_late_watch_does_not_make_a_pod_twice(operator: Operator, cluster: FakeCluster) -> None:
    key = cluster.submit(a_job().raw)
    operator.see()
    for _ in range(3):
        operator.one_pass(key)
    assert set(cluster.made.values()) == {1}
    assert cluster.calls["create"] == 5


class Interleaved(FakeCluster):
    """Between any two calls of one operator there is time for a call of another."""

    async def create(self, kind: Kind, body: Raw, *, dry_run: bool = False) -> Raw:
        await asyncio.sleep(0)
        return await super().create(kind, body, dry_run=dry_run)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, grace: int | None = None
    ) -> Raw:
        await asyncio.sleep(0)
        return await super().delete(kind, namespace, name, uid, grace=grace)

    async def patch_status(
        self, namespace: str, name: str, resource_version: str, patch: Raw
    ) -> Raw:
        await asyncio.sleep(0)
        return await super().patch_status(namespace, name, resource_version, patch)


def test_two_operators_at_once_do_no_harm(runner: asyncio.Runner) -> None:
    cluster = Interleaved()
    both = (Operator(cluster, runner), Operator(cluster, runner))
    key = cluster.submit(a_job().with_workers(2).raw)
    conflicts = 0

    async def passes() -> list[object]:
        for one in both:
            one.see()
        return await asyncio.gather(*(o.reconciler(key) for o in both), return_exceptions=True)

    def work() -> int:
        outcomes = [outcome for _ in range(5) for outcome in runner.run(passes())]
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        expected = errors.ConflictError | errors.TransientError
        assert all(isinstance(error, expected) for error in failed)
        cluster.run_pods()
        return len(failed)

    for _ in range(2):
        conflicts += work()
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    for _ in range(4):
        conflicts += work()
    status = cluster.status(key)
    assert (status.state, status.restarts, status.attempt) == ("Running", 1, 1)
    assert cluster.made == {
        "mnist-chief-0": 2,
        "mnist-worker-0": 1,
        "mnist-worker-1": 1,
        "mnist-ps-0": 1,
    }
    assert told(cluster).count("Restarting") == 1
    assert conflicts > 0, "they did meet"


def test_events_tell_only_of_what_is_stored(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, a_job().with_policy(backoffLimit=0))
    cluster.events.clear()
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1, "boom"))
    operator.see()
    cluster.failing["patch_status"] = [errors.TransientError("busy", status=500)]
    with pytest.raises(errors.TransientError):
        operator.one_pass(key)
    assert told(cluster) == []
    operator.settle()
    assert told(cluster) == ["ExitCode", "Failed"]


def test_an_event_that_cannot_be_written_is_only_lost(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster.failing["create_event"] = [errors.ForbiddenError("no rights", status=403)]
    key = running(operator, a_job())
    assert cluster.status(key).state == "Running"
    assert "Running" in told(cluster)


def test_events_name_the_job_that_they_are_of(operator: Operator, cluster: FakeCluster) -> None:
    key = started(operator, a_job())
    event = cluster.events[0]
    assert event["reason"] == "Created"
    assert event["note"] == "created 3 pods and the service"
    uid = cluster.job(key)["metadata"]["uid"]
    assert event["regarding"] == {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "name": "mnist",
        "namespace": "default",
        "uid": uid,
    }
    assert event["type"] == "Normal"
    assert len(event["note"]) <= 1024


def test_a_status_that_differs_at_each_look_makes_no_hot_loop(
    operator: Operator, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "settled", lambda *_, **__: None)

    def flapped(number: int) -> float | None:
        """Let the worker's readiness change; return when the pass after it is due."""
        cluster.act("mnist-worker-0", lambda pod: pod.running(ready=number % 2 == 0))
        operator.see()
        return operator.one_pass(key)

    key = running(operator, a_job())
    written = len(cluster.statuses)
    assert [flapped(number) for number in range(1, 7)] == [0, 0, 0, 1, 1, 1]
    assert len(cluster.statuses) - written == 6, "each of them had something to write"
    assert operator.one_pass(key) != 0, "it has nothing to write"
    assert flapped(7) == 0, "so the next may be followed at once again"


def test_progress_alone_is_written_every_five_seconds_at_most(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.statuses.clear()
    for second in range(26):
        operator.progress.told[Role.CHIEF] = Report(step=second + 1, total_steps=100)
        operator.look(key)
        operator.wait(1)
    steps = [status.progress.step for status in cluster.statuses if status.progress]
    assert steps == [1, 5, 10, 15, 20, 25], "and what was held back is written in its time"


def test_a_write_of_progress_alone_costs_one_pass(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, a_job())
    operator.progress.told[Role.CHIEF] = Report(step=1, total_steps=100)
    operator.look(key)
    operator.settle()
    cluster.clock.now += timedelta(seconds=5)
    operator.progress.told[Role.CHIEF] = Report(step=2, total_steps=100)
    before = operator.passes
    operator.look(key)
    operator.settle()
    written = cluster.status(key).progress
    assert written is not None
    assert written.step == 2
    assert operator.passes == before + 1


def test_a_report_of_steps_asks_for_a_pass_when_these_may_be_written(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    assert operator.reconciler.progress_due(key) == 0, "nothing is written yet"
    operator.progress.told[Role.CHIEF] = Report(step=1, total_steps=100)
    operator.look(key)
    operator.settle()
    cluster.clock.now += timedelta(seconds=2)
    operator.progress.told[Role.CHIEF] = Report(step=2, total_steps=100)
    assert operator.reconciler.progress_due(key) == 3
    cluster.clock.now += timedelta(seconds=60)
    assert operator.reconciler.progress_due(key) == 0


def test_jobs_that_have_news_at_the_same_moment_write_them_in_turns(
    operator: Operator, cluster: FakeCluster
) -> None:
    def progress(key: JobKey) -> list[int]:
        told = cluster.status(key).progress
        return [] if told is None else [told.step]

    keys = [cluster.submit(a_job().named(f"job-{number}").raw) for number in range(50)]
    operator.settle()
    cluster.run_pods()
    operator.settle()
    for step in (1, 2):
        operator.wait(6)
        before = cluster.calls["patch_status"]
        operator.progress.told[Role.CHIEF] = Report(step=step, total_steps=1000)
        for key in keys:
            operator.look(key)
        operator.settle()
        assert cluster.calls["patch_status"] - before == 20
        waiting = [key for key in keys if progress(key) != [step]]
        due = max(operator.reconciler.progress_due(key) for key in waiting)
        assert due == 1.5, "until their turn further reports ask for no pass"
        operator.wait(0.5)
        assert cluster.calls["patch_status"] - before == 30
        operator.wait(1.1)
        assert cluster.calls["patch_status"] - before == 50
        assert all(progress(key) == [step] for key in keys)


def test_news_of_many_jobs_cost_a_pass_each(operator: Operator, cluster: FakeCluster) -> None:
    keys = [cluster.submit(a_job().named(f"job-{number}").raw) for number in range(50)]
    operator.settle()
    cluster.run_pods()
    operator.wait(6)
    for step in (1, 2):
        operator.progress.told[Role.CHIEF] = Report(step=step, total_steps=1000)
        due = {key: operator.reconciler.progress_due(key) for key in keys}
        assert sum(seconds == 0 for seconds in due.values()) == 20
        assert due == {key: operator.reconciler.progress_due(key) for key in keys}, "one turn each"
        passes, writes = operator.passes, cluster.calls["patch_status"]
        for moment in (0.0, 0.5, 1.0, 1.5):
            for key in (key for key, seconds in due.items() if moment - 0.5 < seconds <= moment):
                operator.look(key)
            operator.settle()
            cluster.clock.now += timedelta(seconds=0.5)
        assert operator.passes - passes == cluster.calls["patch_status"] - writes == 50
        operator.wait(6)


def test_news_wait_where_writes_take_long(
    operator: Operator, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [cluster.submit(a_job().named(f"job-{number}").raw) for number in range(10)]
    operator.settle()
    cluster.run_pods()
    operator.wait(6)
    patch_status = cluster.patch_status

    async def late(*about: Any) -> Raw:
        cluster.clock.now += timedelta(seconds=1)
        return await patch_status(*about)

    monkeypatch.setattr(cluster, "patch_status", late)
    written = []
    for step in (1, 2):
        before = cluster.calls["patch_status"]
        operator.progress.told[Role.CHIEF] = Report(step=step, total_steps=1000)
        for key in keys:
            operator.look(key)
        operator.settle()
        written.append(cluster.calls["patch_status"] - before)
        operator.wait(60)
    assert written[1] <= 2, "the rest has to wait for as long as writes have taken"
    assert {one.step for key in keys if (one := cluster.status(key).progress)} == {2}


def test_only_running_chief_and_evaluator_are_asked_for_progress(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator, a_job().with_evaluator())
    assert operator.progress.watched[key] == {}
    cluster.run_pods()
    operator.settle()
    url = "http://198.18.0.9:8080/progress"
    watched = operator.progress.watched[key]
    assert [watched[role].url for role in (Role.CHIEF, Role.EVALUATOR)] == [url, url]
    cluster.remove_job(key)
    operator.settle()
    assert key not in operator.progress.watched


def test_after_the_end_servers_go_and_the_evidence_stays(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.settle()
    cluster.run_pods()
    operator.settle()
    assert set(cluster.pods()) == {"mnist-chief-0"}
    assert names(cluster, Kind.SERVICE) == {"mnist"}, "it goes with the job"
    replicas = cluster.status(key).replicas
    assert replicas is not None
    assert (replicas.chief, replicas.worker, replicas.ps) == ("1/1", "1/1", "1/1")


def test_pods_carry_the_operators_image_and_owner(operator: Operator, cluster: FakeCluster) -> None:
    key = started(operator, a_job())
    uid = cluster.job(key)["metadata"]["uid"]
    for raw in cluster.pods().values():
        assert raw["spec"]["containers"][0]["image"] == IMAGE
        assert [o["uid"] for o in raw["metadata"]["ownerReferences"]] == [uid]


def test_a_service_that_somebody_deleted_is_made_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, a_job())
    cluster._drop(Kind.SERVICE, cluster.objects[Kind.SERVICE, "default", "mnist"])
    operator.settle()
    assert names(cluster, Kind.SERVICE) == {"mnist"}
    assert set(cluster.made.values()) == {1}


def test_a_pod_that_is_refused_does_not_hide_the_deadline(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster.refuse = lambda kind, _body: (
        errors.ForbiddenError("exceeded quota", status=403) if kind is Kind.POD else None
    )
    key = started(operator, a_job().with_policy(startupDeadlineSeconds=60))
    operator.wait(80)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert failed.reason == "StartupDeadlineExceeded"
    assert "QuotaExceeded: exceeded quota" in failed.message
    assert cluster.calls["create"] < 40, "and was not tried in a hot loop"


def test_a_pod_whose_labels_were_torn_off_is_not_made_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, a_job())

    def tear(pod: PodBuilder) -> None:
        del pod.raw["metadata"]["labels"][keys.LABEL_ROLE]

    cluster.act("mnist-worker-0", tear)
    operator.settle()
    calls = sum(cluster.calls.values())
    operator.wait(60)
    assert cluster.made["mnist-worker-0"] == 1
    assert sum(cluster.calls.values()) - calls < 5, "and nobody is asked again and again"


def test_a_chief_that_a_late_watch_has_not_shown_is_not_taken_for_lost(
    operator: Operator, cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    key = running(operator, a_job())
    late = Operator(cluster, runner)
    for raw in late.store.children(Kind.POD, key):
        if raw["metadata"]["name"] == "mnist-chief-0":
            late.store._objects[Kind.POD][key].pop("mnist-chief-0", None)
    late.one_pass(key)
    assert cluster.status(key).attempt == 0
    assert cluster.made["mnist-chief-0"] == 1


def connecting(operator: Operator, job: JobBuilder) -> JobKey:
    """Submit a job whose chief, a script of the user's, has said how many steps it will make."""
    key = started(operator, job)
    operator.cluster.act("mnist-chief-0", lambda pod: pod.running(ready=False))
    operator.settle()
    for _ in range(3):
        report(operator, total_steps=3000, waiting_for=["worker-0"])
        operator.look(key)
    operator.settle()
    return key


def test_a_chief_that_waits_has_not_run_though_it_knows_how_many_steps_there_are(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = connecting(operator, a_job().with_policy(startupDeadlineSeconds=60))
    status = cluster.status(key)
    assert (status.first_running_time, status.interrupted_time) == (None, None)
    operator.wait(62)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert (failed.status, failed.reason) == ("True", "StartupDeadlineExceeded")


def test_the_first_training_is_not_told_as_another(
    operator: Operator, cluster: FakeCluster
) -> None:
    connecting(operator, a_job())
    cluster.run_pods()
    cluster.act("mnist-chief-0", lambda pod: pod.running())
    operator.settle()
    (told,) = [e["note"] for e in cluster.events if e["reason"] == "Running"]
    assert told.startswith("training (attempt 0)")
