"""Jobs that get workers from Kueue while they train, and give them back, in whole passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import find
from tftraining_operator.core.schedulers.kueue_workload import Workload
from tftraining_operator.core.schedulers.offer import Availability, Offer
from tftraining_operator.reconcile.store import JobKey, Kind

from tests.unit import kueue
from tests.unit.builders import JobBuilder, Raw, a_job
from tests.unit.fakes import FakeCluster, Fault, KilledError, Operator, at_rest

if TYPE_CHECKING:
    import asyncio

    from tftraining_operator.api.status import QueueStatus

CHIEF = "mnist-chief-0"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
NO_QUOTA = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu"


@pytest.fixture
def operator(cluster: FakeCluster, runner: asyncio.Runner) -> Operator:
    return Operator(cluster, runner, offer=Offer(workloads=Availability.USABLE))


def go_on(operator: Operator, seconds: float = 0) -> None:
    """Let operator and nodes work, and so much time pass."""
    at_rest(operator)
    if seconds:
        operator.wait(seconds)
        go_on(operator)


def elastic(workers: int = 4) -> JobBuilder:
    job = a_job().with_role("worker", replicas=workers, minReplicas=1)
    return job.with_label(keys.LABEL_QUEUE, "research")


def partly_admitted(operator: Operator, workers: int = 2, job: JobBuilder | None = None) -> JobKey:
    """A job of four workers trains with fewer."""
    key = operator.cluster.submit((job or elastic()).raw)
    operator.settle()
    kueue.admit(operator.cluster, workers=workers)
    go_on(operator)
    return key


def grown(operator: Operator) -> JobKey:
    """A job that was admitted with two workers trains with four."""
    key = partly_admitted(operator)
    kueue.admit(operator.cluster, extension=1)
    go_on(operator, 25)
    return key


def scale(operator: Operator, key: JobKey, workers: int, seconds: float = 0) -> None:
    operator.cluster.edit(key, lambda spec: spec["worker"].update(replicas=workers))
    go_on(operator, seconds)


def workers(cluster: FakeCluster) -> list[int]:
    return sorted(int(name.rpartition("-")[2]) for name in cluster.pods() if "-worker-" in name)


def queue_of(cluster: FakeCluster, key: JobKey) -> QueueStatus:
    found = cluster.status(key).queue
    assert found is not None
    return found


def admitted(cluster: FakeCluster, key: JobKey) -> str:
    found = find(cluster.status(key).conditions, ConditionType.ADMITTED)
    assert found is not None
    assert found.status == "True"
    return found.message


def notes(cluster: FakeCluster, reason: str) -> list[str]:
    return [event["note"] for event in cluster.events if event["reason"] == reason]


def test_a_job_that_trains_asks_for_the_workers_it_lacks(operator: Operator) -> None:
    key, cluster = partly_admitted(operator), operator.cluster
    raw, own = kueue.the_workload(cluster, 1), kueue.the_workload(cluster)
    (pods,) = raw["spec"]["podSets"]
    assert (pods["name"], pods["count"], pods["minCount"]) == ("worker", 2, 1)
    assert (raw["spec"]["queueName"], raw["spec"]["priority"]) == ("research", 0)
    assert raw["metadata"]["name"] == f"{own['metadata']['name']}-1"
    (owner,) = raw["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("uid-1", False)
    where = "admitted to queue research with 2 of 4 workers; the others are queued: Kueue"
    assert admitted(cluster, key) == f"{where} has not answered yet"
    kueue.pending(cluster, NO_QUOTA, extension=1)
    operator.settle()
    assert admitted(cluster, key) == f"{where}: {NO_QUOTA}"
    assert workers(cluster) == [0, 1]


def test_a_job_that_does_not_train_yet_asks_for_no_more(operator: Operator) -> None:
    cluster = operator.cluster
    cluster.submit(elastic().raw)
    operator.settle()
    kueue.admit(cluster, workers=2)
    operator.settle()
    assert len(cluster.pods()) == 4
    assert kueue.extensions(cluster) == {}


def test_a_job_grows_when_there_is_room_and_only_its_chief_restarts(operator: Operator) -> None:
    cluster = operator.cluster
    cluster.cluster_objects[f"{FLAVORS}/spot"] = {"spec": {"nodeLabels": {"pool": "spot"}}}
    key = partly_admitted(operator)
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    kueue.admit(cluster, flavor="spot", extension=1)
    go_on(operator)
    assert workers(cluster) == [0, 1, 2, 3]
    pods = cluster.pods()
    assert pods["mnist-worker-2"]["spec"]["nodeSelector"] == {"pool": "spot"}
    assert "nodeSelector" not in pods["mnist-worker-1"]["spec"]
    own = kueue.the_workload(cluster)["metadata"]
    for name in ("mnist-worker-1", "mnist-worker-2"):
        assert pods[name]["metadata"]["annotations"][keys.ANNOTATION_WORKLOAD] == own["uid"]
    go_on(operator, 25)
    status = cluster.status(key)
    assert (status.state, status.cluster_workers, status.restarts) == ("Running", 4, 0)
    assert admitted(cluster, key) == "admitted to queue research"
    after = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    assert [name for name in before if before[name] != after[name]] == [CHIEF]
    assert notes(cluster, "Admitted")[-1] == "quota for 2 more workers, 4 in all"
    for number in (0, 1):
        found = kueue.conditions(kueue.the_workload(cluster, number))
        assert found["PodsReady"][0] == "True"


def test_a_job_grows_by_less_than_it_lacks_and_asks_for_the_rest(operator: Operator) -> None:
    key, cluster = partly_admitted(operator, job=elastic(6)), operator.cluster
    kueue.admit(cluster, workers=1, extension=1)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 3
    assert kueue.extensions(cluster) == {1: 4, 2: 3}
    kueue.admit(cluster, extension=2)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 6


def test_an_elastic_job_begins_with_its_least_and_asks_for_the_others_later(
    operator: Operator,
) -> None:
    cluster = operator.cluster
    key = cluster.submit(elastic().with_spec(scheduling={"elastic": True}).raw)
    operator.settle()
    (worker,) = (
        pods for pods in kueue.the_workload(cluster)["spec"]["podSets"] if pods["name"] == "worker"
    )
    assert (worker["count"], "minCount" in worker) == (1, False)
    kueue.admit(cluster)
    go_on(operator)
    assert (workers(cluster), kueue.extensions(cluster)) == ([0], {1: 3})
    kueue.admit(cluster, extension=1)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 4


def test_what_is_preempted_in_part_trains_on_with_the_rest(operator: Operator) -> None:
    key, cluster = grown(operator), operator.cluster
    kueue.evict(cluster, extension=1)
    operator.settle()
    held = kueue.conditions(kueue.the_workload(cluster, 1))["QuotaReserved"]
    assert held[0] == "True", "its workers still use it"
    go_on(operator)
    status = cluster.status(key)
    assert (status.state, status.cluster_workers, status.restarts) == ("Running", 2, 0)
    assert workers(cluster) == [0, 1]
    raw = kueue.the_workload(cluster, 1)
    assert kueue.conditions(raw)["QuotaReserved"] == ("False", "Pending")
    assert "admission" not in raw["status"]
    queue = queue_of(cluster, key)
    assert (queue.workers, queue.evictions, queue.preemptions) == (2, 0, 0)
    assert queue.last_eviction is not None
    assert queue.last_eviction.reason == "Preempted"
    assert notes(cluster, "Preempted") == [f"continuing with 2 workers: {kueue.PREEMPTED}"]
    kueue.admit(cluster, extension=1)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 4


def test_with_an_extension_those_after_it_end_and_are_asked_for_together(
    operator: Operator,
) -> None:
    key, cluster = grown(operator), operator.cluster
    scale(operator, key, 5)
    kueue.admit(cluster, extension=2)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 5
    kueue.evict(cluster, extension=1)
    operator.settle()
    assert kueue.extensions(cluster) == {1: 2, 2: 1}, "their workers still use their quota"
    go_on(operator)
    assert workers(cluster) == [0, 1]
    assert kueue.extensions(cluster) == {1: 3}


def test_workers_are_given_back_from_the_last(operator: Operator) -> None:
    key, cluster = grown(operator), operator.cluster
    scale(operator, key, 3)
    assert kueue.the_workload(cluster, 1)["status"]["reclaimablePods"] == [
        {"name": "worker", "count": 1},
    ]
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=2))
    operator.settle()
    assert kueue.extensions(cluster) == {1: 2}, "a worker still uses its quota"
    go_on(operator)
    assert kueue.extensions(cluster) == {}
    assert workers(cluster) == [0, 1]
    assert "reclaimablePods" not in kueue.the_workload(cluster)["status"]
    scale(operator, key, 1)
    assert kueue.the_workload(cluster)["status"]["reclaimablePods"] == [
        {"name": "worker", "count": 3},
    ]
    scale(operator, key, 2)
    assert kueue.extensions(cluster) == {1: 1}
    assert not notes(cluster, "Preempted") + notes(cluster, "WorkloadDeleted")


def test_kueue_is_told_at_once_of_the_pods_of_all_extensions(operator: Operator) -> None:
    def ready(*, value: bool) -> set[tuple[str, str]]:
        for index in workers(cluster):
            cluster.act(f"mnist-worker-{index}", lambda pod: pod.running(ready=value))
        operator.settle()
        found = [kueue.the_workload(cluster, number) for number in (0, 1, 2, 3)]
        return {kueue.conditions(raw)["PodsReady"] for raw in found}

    key, cluster = grown(operator), operator.cluster
    for number, count in ((2, 5), (3, 6)):
        scale(operator, key, count)
        kueue.admit(cluster, extension=number)
        go_on(operator, 25)
    assert ready(value=False) == {("False", "WaitForRecovery")}
    assert ready(value=True) == {("True", "Recovered")}


def test_an_extension_that_waits_follows_the_job(operator: Operator) -> None:
    key, cluster = partly_admitted(operator), operator.cluster
    uid = kueue.the_workload(cluster, 1)["metadata"]["uid"]
    scale(operator, key, 7)
    assert kueue.extensions(cluster) == {1: 5}
    assert kueue.the_workload(cluster, 1)["metadata"]["uid"] == uid
    scale(operator, key, 2)
    assert kueue.extensions(cluster) == {}


def test_an_extension_that_is_stopped_by_hand_stays_and_names_the_remedy(
    operator: Operator,
) -> None:
    key, cluster = grown(operator), operator.cluster

    def stop(raw: Raw) -> None:
        raw["spec"]["active"] = False

    cluster.change(Kind.WORKLOAD, kueue.the_workload(cluster, 1), stop)
    kueue.evict(cluster, "Deactivated", "The workload is deactivated", extension=1)
    go_on(operator)
    name = kueue.the_workload(cluster, 1)["metadata"]["name"]
    assert f"set spec.active of Workload {name} to true" in admitted(cluster, key)
    assert cluster.status(key).cluster_workers == 2


def test_an_extension_that_is_deleted_by_hand_is_asked_for_again(operator: Operator) -> None:
    key, cluster = grown(operator), operator.cluster
    kueue.delete(cluster, 1)
    go_on(operator)
    assert workers(cluster) == [0, 1]
    assert kueue.extensions(cluster) == {1: 2}
    assert notes(cluster, "WorkloadDeleted") == [
        "continuing with 2 workers: a Workload of some workers was deleted"
    ]
    assert cluster.status(key).state == "Running"


def test_with_an_extension_that_is_deleted_those_after_it_end(operator: Operator) -> None:
    key, cluster = grown(operator), operator.cluster
    scale(operator, key, 5)
    kueue.admit(cluster, extension=2)
    go_on(operator, 25)
    kueue.delete(cluster, 1)
    go_on(operator)
    assert workers(cluster) == [0, 1], "their quota is counted from the first on"
    assert kueue.extensions(cluster) == {1: 3}


def test_that_workers_were_evicted_is_stored_before_their_quota_is_given_back(
    operator: Operator,
) -> None:
    key, cluster = grown(operator), operator.cluster
    for index in (2, 3):
        cluster.collect(f"mnist-worker-{index}")
    kueue.evict(cluster, extension=1)
    cluster.faults[cluster.writes + 1] = Fault.KILLED
    with pytest.raises(KilledError):
        operator.settle()
    successor = Operator(cluster, operator.runner, offer=Offer(workloads=Availability.USABLE))
    if not Workload(kueue.the_workload(cluster, 1)).holds_quota:
        kueue.admit(cluster, extension=1)  # at once, which ends the eviction
    go_on(successor)
    evicted = queue_of(cluster, key).last_eviction
    assert evicted is not None
    assert evicted.reason == "Preempted"
    assert cluster.status(key).state == "Running"


def test_an_extension_that_loses_our_label_is_not_taken_for_deleted(operator: Operator) -> None:
    key, cluster = grown(operator), operator.cluster
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    kueue.unlabel(cluster, 1)
    go_on(operator, 600)
    after = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    assert (cluster.status(key).cluster_workers, after) == (4, before)
    kueue.evict(cluster, extension=1)
    go_on(operator)
    assert workers(cluster) == [0, 1]
    kueue.admit(cluster, extension=1)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 4


@pytest.mark.parametrize("number", [0, 1, 2])
def test_workloads_that_all_lose_our_label_are_not_taken_for_deleted(
    operator: Operator, number: int
) -> None:
    key, cluster = grown(operator), operator.cluster
    scale(operator, key, 5)
    kueue.admit(cluster, extension=2)
    go_on(operator, 25)
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    for each in range(number, 3):
        kueue.unlabel(cluster, each)
    go_on(operator, 60)
    after = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    assert (cluster.status(key).cluster_workers, after) == (5, before)


def test_an_extension_that_waits_and_loses_our_label_is_found_again(operator: Operator) -> None:
    key, cluster = partly_admitted(operator), operator.cluster
    kueue.unlabel(cluster, 1)
    go_on(operator)
    kueue.admit(cluster, extension=1)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 4


def test_an_extension_that_lost_its_owner_does_not_stop_a_running_job(operator: Operator) -> None:
    key, cluster = partly_admitted(operator), operator.cluster
    raw = kueue.the_workload(cluster, 1)
    cluster.change(Kind.WORKLOAD, raw, lambda raw: raw["metadata"].pop("ownerReferences"))
    go_on(operator)
    assert cluster.status(key).state == "Running"
    name = raw["metadata"]["name"]
    problem = f"workload {name} exists and does not belong to this job; delete it"
    assert problem in admitted(cluster, key)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    go_on(operator, 60)
    assert (cluster.status(key).state, cluster.status(key).restarts) == ("Running", 1)
    kueue.delete(cluster, 1)
    go_on(operator, 60)
    assert kueue.extensions(cluster) == {1: 2}


@pytest.mark.parametrize("end", ["evicted", "suspended", "succeeded", "failed"])
def test_no_extension_is_left_when_the_job_has_no_pods(operator: Operator, end: str) -> None:
    key, cluster = grown(operator), operator.cluster
    if end == "evicted":
        kueue.evict(cluster)
    elif end == "suspended":
        cluster.suspend(key)
    else:
        code = 0 if end == "succeeded" else 64
        cluster.act(CHIEF, lambda pod: pod.exited(code))
    operator.settle()
    assert kueue.extensions(cluster) == {1: 2}, "its workers still use its quota"
    go_on(operator)
    assert kueue.extensions(cluster) == {}
    if end == "evicted":
        held = kueue.conditions(kueue.the_workload(cluster))["QuotaReserved"]
        assert held == ("False", "Pending")
        assert (queue_of(cluster, key).preemptions, cluster.pods()) == (1, {})


def test_a_mirrored_job_grows_by_all_it_lacks_or_not_at_all(operator: Operator) -> None:
    job = a_job().mirrored(workers=2).with_label(keys.LABEL_QUEUE, "research")
    cluster = operator.cluster
    key = cluster.submit(job.raw)
    operator.settle()
    kueue.admit(cluster)
    go_on(operator)
    scale(operator, key, 4)
    assert "minCount" not in kueue.the_workload(cluster, 1)["spec"]["podSets"][0]
    kueue.admit(cluster, extension=1)
    go_on(operator, 25)
    assert cluster.status(key).cluster_workers == 4


def test_the_number_of_extensions_is_bounded(operator: Operator) -> None:
    key, cluster = partly_admitted(operator, job=elastic(3)), operator.cluster
    for extension in range(1, 9):
        kueue.admit(cluster, workers=1, extension=extension)
        go_on(operator, 25)
        scale(operator, key, 3 + extension)
    assert max(kueue.extensions(cluster)) == 8
    assert "workers were added 8 times" in admitted(cluster, key)
