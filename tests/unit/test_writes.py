"""What a job's life costs the API server when nothing disturbs it, and how its servers end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import is_true
from tftraining_operator.core.starting import hold_time
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import Kind

from tests.unit.builders import PodBuilder, a_job
from tests.unit.fakes import WRITES, FakeCluster, Operator, at_rest, copied

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.reconcile.store import JobKey

MOST = 20
ONE = {"delete_servers": 1}


def writes(cluster: FakeCluster) -> dict[str, int]:
    return {verb: cluster.calls[verb] for verb in (*WRITES, "dry_run") if cluster.calls[verb]}


def started(operator: Operator) -> JobKey:
    """A job of a chief, four workers, two ps and an evaluator."""
    job = a_job().with_workers(4).with_role("ps", replicas=2).with_evaluator()
    key = operator.cluster.submit(job.raw)
    operator.settle()
    assert len(operator.cluster.pods()) == 8
    return key


def runs(operator: Operator) -> None:
    """The pods become ready one after the other, the chief first."""
    for name in sorted(operator.cluster.pods()):
        operator.cluster.act(name, PodBuilder.running)
        operator.wait(0.1)


def goes(operator: Operator) -> None:
    """The pods that are asked to end do so one after the other."""
    for name, raw in operator.cluster.pods().items():
        if "deletionTimestamp" in raw["metadata"]:
            operator.cluster.collect(name)
            operator.wait(0.2)
    operator.wait(5)


def test_a_worker_that_failed_is_made_again_before_another_status_is_written(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator)
    runs(operator)
    operator.wait(20)
    before = writes(cluster)
    statuses = len(cluster.statuses)
    cluster.act("mnist-worker-0", lambda pod: pod.exited(1))
    operator.settle()
    assert cluster.pods()["mnist-worker-0"]["status"] == {"phase": "Pending"}
    assert cluster.calls["delete"] - before.get("delete", 0) == 1
    workers = [
        next(role for role in status.roles if role.name == "worker")
        for status in cluster.statuses[statuses:]
    ]
    assert [(role.active, role.failed) for role in workers] == [(3, 1), (4, 0)]
    told = [event["reason"] for event in cluster.events]
    assert told[-3:] == ["ExitCode", "Replacing", "Created"]
    assert cluster.status(key).restarts == 0


def test_a_replacement_comes_before_the_progress_of_others(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    urgent = []
    monkeypatch.setattr(operator.reconciler._pace, "give_way", urgent.append)
    started(operator)
    assert len(urgent) == 1, "new pods"
    runs(operator)
    operator.wait(20)
    del urgent[:]
    operator.cluster.act("mnist-worker-0", lambda pod: pod.exited(1))
    operator.settle()
    assert len(urgent) == 3, "it is to be deleted, is deleted, and made again"


def test_that_a_worker_is_replaced_is_told_though_it_cannot_be_made_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    started(operator)
    runs(operator)
    operator.wait(20)
    full = errors.ForbiddenError("exceeded quota: pods", status=403)
    cluster.refuse = lambda kind, _body: full if kind is Kind.POD else None
    cluster.act("mnist-worker-0", lambda pod: pod.exited(1))
    operator.settle()
    told = [event["reason"] for event in cluster.events]
    assert told[-3:] == ["ExitCode", "Replacing", "QuotaExceeded"]
    assert "mnist-worker-0" not in cluster.pods()


@pytest.mark.parametrize("last", ["chief", "evaluator"])
def test_the_life_of_a_job_of_eight_pods_costs_few_writes(
    operator: Operator, cluster: FakeCluster, last: str
) -> None:
    key = started(operator)
    runs(operator)
    operator.wait(20)
    for role in ("evaluator", "chief") if last == "chief" else ("chief", "evaluator"):
        cluster.act(f"mnist-{role}-0", lambda pod: pod.exited(0))
        operator.wait(0.1)
        goes(operator)
    status = cluster.status(key)
    assert status.state == "Succeeded"
    assert set(cluster.pods()) == {"mnist-chief-0", "mnist-evaluator-0"}
    assert [(role.name, role.active) for role in status.roles if role.active] == []
    assert sum(writes(cluster).values()) <= MOST, writes(cluster)


def test_pods_that_become_ready_soon_after_each_other_are_told_at_once(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator)
    before = cluster.calls["patch_status"]
    runs(operator)
    assert cluster.calls["patch_status"] - before == 1
    status = cluster.status(key)
    assert is_true(status, ConditionType.RUNNING)
    assert is_true(status, ConditionType.PODS_READY)


def test_that_a_job_trains_is_told_within_a_second_though_a_pod_lacks(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator)
    cluster.act("mnist-chief-0", PodBuilder.running)
    operator.wait(0.9)
    assert cluster.status(key).state == "Starting"
    operator.wait(0.1)
    assert cluster.status(key).state == "Running"


def test_with_many_jobs_that_one_trains_though_a_pod_lacks_is_told_later(
    operator: Operator, cluster: FakeCluster
) -> None:
    for number in range(499):
        other = a_job().named(f"j{number}", uid=f"j{number}").raw
        other["metadata"]["resourceVersion"] = "1"
        operator.store.put(Kind.JOB, other)
    key = started(operator)
    cluster.act("mnist-chief-0", PodBuilder.running)
    operator.wait(4.9)
    assert cluster.status(key).state == "Starting"
    operator.wait(0.1)
    assert cluster.status(key).state == "Running"


def test_to_a_server_that_is_late_it_is_told_later_too(
    operator: Operator, cluster: FakeCluster
) -> None:
    async def half_the_way() -> None:
        cluster.clock.now += timedelta(seconds=0.25)

    cluster.pause = half_the_way
    key = started(operator)
    cluster.pause = None
    cluster.act("mnist-chief-0", PodBuilder.running)
    operator.wait(3.9)
    assert cluster.status(key).state == "Starting"
    operator.wait(0.1)
    assert cluster.status(key).state == "Running"


@pytest.mark.parametrize(
    ("jobs", "write", "hold"),
    [(1, 0.01, 1), (1, 0.05, 2), (1, 5.0, 6), (1000, 0.01, 10), (1000, 0.1, 40), (9999, 5.0, 60)],
)
def test_how_long_is_never_for_ever(jobs: int, write: float, hold: float) -> None:
    found = hold_time(jobs, timedelta(seconds=write))
    assert found.total_seconds() == pytest.approx(hold)


def test_no_pass_follows_a_status_that_begins_nothing(
    operator: Operator, cluster: FakeCluster
) -> None:
    started(operator)
    passes, written = operator.passes, cluster.calls["patch_status"]
    for name in cluster.pods():
        cluster.act(name, PodBuilder.running)
    operator.wait(4)
    assert cluster.calls["patch_status"] - written == 1
    assert operator.passes - passes == 1


def test_what_keeps_a_pod_from_starting_is_told_at_once(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator)
    cluster.act("mnist-ps-0", lambda pod: pod.waiting("ErrImagePull"))
    operator.settle()
    assert cluster.status(key).state == "ImagePullBackOff"


def test_where_others_wait_what_was_created_is_told_with_what_came_of_it(
    operator: Operator, cluster: FakeCluster
) -> None:
    operator.crowded = True
    key = cluster.submit(a_job().with_workers(4).with_role("ps", replicas=2).raw)
    operator.see()
    operator.one_pass(key)
    assert len(cluster.pods()) == 7
    assert cluster.calls["patch_status"] == 0
    for name in cluster.pods():
        cluster.act(name, PodBuilder.running)
    operator.settle()
    operator.wait(5)
    status = cluster.status(key)
    assert status.state == "Running"
    assert [event["reason"] for event in cluster.events] == ["Created", "Running"]
    assert cluster.events[0]["note"] == "created 7 pods and the service"
    assert (cluster.calls["patch_status"], cluster.calls["dry_run"]) == (1, 1)


def test_what_was_created_is_told_though_the_first_status_was_refused(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster.failing["patch_status"] = [errors.ConflictError("modified", status=409)]
    started(operator)
    operator.wait(5)
    assert [event["reason"] for event in cluster.events] == ["Created"]


SERVERS = ("ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "worker-3")


def ended(operator: Operator, before: Callable[[], object] = lambda: None) -> dict[str, int]:
    """End a job that runs; return how often what was called for its servers to end."""
    started(operator)
    runs(operator)
    before()
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.settle()
    calls = operator.cluster.calls
    return {verb: calls[verb] for verb in ("delete", "delete_servers") if calls[verb]}


def going(cluster: FakeCluster) -> set[str]:
    pods = cluster.pods().items()
    return {n.removeprefix("mnist-") for n, raw in pods if "deletionTimestamp" in raw["metadata"]}


def test_the_servers_of_an_ended_job_end_by_one_call(
    operator: Operator, cluster: FakeCluster
) -> None:
    assert ended(operator) == ONE
    assert going(cluster) == set(SERVERS)


def test_a_pod_with_the_jobs_labels_that_is_not_its_own_is_left_alone(
    operator: Operator, cluster: FakeCluster
) -> None:
    def intrude() -> None:
        stranger = copied(cluster.pods()["mnist-worker-0"])
        stranger["metadata"].pop("ownerReferences")
        stranger["metadata"] |= {"name": "stranger"}
        cluster._create(Kind.POD, stranger, dry_run=False)

    assert ended(operator, intrude) == {"delete": 6}
    assert going(cluster) == set(SERVERS)


def test_a_server_that_lost_its_labels_ends_as_the_others(
    operator: Operator, cluster: FakeCluster
) -> None:
    lost = {keys.LABEL_JOB_UID: None}
    assert ended(operator, lambda: cluster.label("mnist-ps-1", lost)) == {"delete": 6}
    assert going(cluster) == set(SERVERS)


def test_without_the_right_to_delete_them_by_one_call_servers_end_one_by_one(
    operator: Operator, cluster: FakeCluster
) -> None:
    cluster.failing["delete_servers"] = [errors.ForbiddenError("no", status=403)]
    assert ended(operator) == {"delete": 6, "delete_servers": 1}
    assert going(cluster) == set(SERVERS)


@pytest.mark.parametrize(("namespace", "calls"), [("default", {"delete": 6}), ("other", ONE)])
def test_among_the_pods_of_very_many_jobs_servers_end_one_by_one(
    operator: Operator, cluster: FakeCluster, namespace: str, calls: dict[str, int]
) -> None:
    for number in range(300):
        other = a_job().named(f"j{number}", uid=f"j{number}").raw
        other["metadata"] |= {"resourceVersion": "1", "namespace": namespace}
        operator.store.put(Kind.JOB, other)
    assert ended(operator) == calls
    assert going(cluster) == set(SERVERS)


def test_servers_of_a_job_that_goes_on_are_deleted_by_their_uids(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator)
    runs(operator)
    cluster.suspend(key)
    at_rest(operator)
    assert cluster.pods() == {}
    assert cluster.calls["delete_servers"] == 0, "a call that comes late must meet no later pod"


def test_before_the_watch_tells_of_it_they_are_not_told_to_end_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = started(operator)
    runs(operator)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.see()
    for _ in range(4):
        operator.one_pass(key)
    assert (cluster.calls["delete_servers"], cluster.calls["delete"]) == (1, 0)
    operator.wait(10)
    assert (cluster.calls["delete_servers"], cluster.calls["delete"]) == (1, 0)
