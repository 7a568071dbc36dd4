"""Jobs in a queue of Kueue, in whole passes: when they have pods, and what Kueue is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers.offer import Availability, Offer
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import GROUPS, JobKey, Kind

from tests.unit import kueue
from tests.unit.builders import JobBuilder, Raw, a_job
from tests.unit.fakes import FakeCluster, Operator, condition

if TYPE_CHECKING:
    import asyncio

    from tftraining_operator.api.status import QueueStatus

KUEUE = Offer(workloads=Availability.USABLE)
CHIEF = "mnist-chief-0"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
WORKLOAD_PRIORITIES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
NO_QUOTA = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu"


@pytest.fixture
def operator(cluster: FakeCluster, runner: asyncio.Runner) -> Operator:
    return Operator(cluster, runner, offer=KUEUE)


def queued(operator: Operator, job: JobBuilder | None = None) -> JobKey:
    """Submit a job with a queue."""
    job = (job or a_job()).with_label(keys.LABEL_QUEUE, "research")
    key = operator.cluster.submit(job.raw)
    operator.settle()
    return key


def running(operator: Operator, job: JobBuilder | None = None) -> JobKey:
    key = queued(operator, job)
    kueue.admit(operator.cluster)
    go_on(operator)
    return key


def go_on(operator: Operator) -> None:
    operator.settle()
    while operator.cluster.run_pods():
        operator.settle()


def relabel(cluster: FakeCluster, key: JobKey, queue: str) -> None:
    """Its user names another queue."""

    def change(raw: Raw) -> None:
        raw["metadata"].setdefault("labels", {})[keys.LABEL_QUEUE] = queue

    cluster.change(Kind.JOB, cluster.job(key), change)


def queue_of(cluster: FakeCluster, key: JobKey) -> QueueStatus:
    found = cluster.status(key).queue
    assert found is not None
    return found


def reasons(cluster: FakeCluster) -> list[str]:
    return [event["reason"] for event in cluster.events]


def test_a_queued_job_has_a_workload_and_no_pods(operator: Operator) -> None:
    job = a_job().with_workers(2).with_evaluator()
    job.with_container(resources={"requests": {"cpu": "2"}}, env=[{"name": "A"}, {"name": "A"}])
    key = queued(operator, job)
    cluster = operator.cluster
    assert not cluster.pods()
    raw = kueue.the_workload(cluster)
    assert raw["metadata"]["ownerReferences"][0]["uid"] == cluster.job(key)["metadata"]["uid"]
    assert raw["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == "uid-1"
    assert raw["spec"]["queueName"] == "research"
    assert raw["spec"]["priority"] == 0
    counts = [(each["name"], each["count"]) for each in raw["spec"]["podSets"]]
    assert counts == [("chief", 1), ("worker", 2), ("ps", 1), ("evaluator", 1)]
    template = raw["spec"]["podSets"][0]["template"]["spec"]
    assert template == {
        "containers": [{"name": "tensorflow", "resources": {"requests": {"cpu": "2"}}}]
    }


def test_it_says_since_when_it_waits_and_why_in_kueues_words(operator: Operator) -> None:
    key, cluster = queued(operator), operator.cluster
    since = queue_of(cluster, key).waiting_since
    waiting = f"queued since {since} in research: "
    assert cluster.status(key).message == f"{waiting}Kueue has not answered yet"
    kueue.pending(cluster, NO_QUOTA)
    operator.settle()
    status = cluster.status(key)
    assert (status.state, status.message) == ("Queued", f"{waiting}Kueue: {NO_QUOTA}")
    assert condition(cluster, key, ConditionType.ADMITTED).reason == "Queued"
    assert condition(cluster, key, ConditionType.PODS_READY).reason == "Queued"
    assert status.start_time is None, "no deadline runs"


def test_a_closed_queue_is_named_and_recovers(operator: Operator) -> None:
    key, cluster = queued(operator), operator.cluster
    kueue.pending(cluster, "ClusterQueue all is inactive", "Inadmissible")
    operator.settle()
    found = condition(cluster, key, ConditionType.ADMITTED)
    assert (found.reason, found.message.endswith("Kueue: ClusterQueue all is inactive")) == (
        *("Inadmissible", True),
    )
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).state == "Running"


def test_its_pods_come_with_the_admission(operator: Operator) -> None:
    cluster = operator.cluster
    toleration = {"key": "spot", "operator": "Exists"}
    cluster.cluster_objects[f"{FLAVORS}/spot"] = {
        "spec": {"nodeLabels": {"example.com/pool": "spot"}, "tolerations": [toleration]}
    }
    key = queued(operator)
    cluster.clock.tick(30)
    updates = [{"name": "worker", "labels": {"example.com/by": "a-check"}}]
    checks = [{"name": "room", "state": "Ready", "podSetUpdates": updates}]
    kueue.admit(cluster, flavor="spot", checks=checks)
    go_on(operator)
    pods, raw = cluster.pods(), kueue.the_workload(cluster)
    assert len(pods) == 3
    for name, pod in pods.items():
        assert pod["spec"]["nodeSelector"] == {"example.com/pool": "spot"}
        assert pod["spec"]["tolerations"] == [toleration]
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == name.split("-")[1]
        annotations = pod["metadata"]["annotations"]
        assert annotations["kueue.x-k8s.io/workload"] == raw["metadata"]["name"]
        assert annotations[keys.ANNOTATION_WORKLOAD] == raw["metadata"]["uid"]
    assert "example.com/by" in pods["mnist-worker-0"]["metadata"]["labels"]
    assert "example.com/by" not in pods[CHIEF]["metadata"]["labels"]
    assert kueue.conditions(raw)["PodsReady"] == ("True", "Started")
    status = cluster.status(key)
    assert status.state == "Running"
    assert queue_of(cluster, key).wait_seconds == 30
    assert "Admitted" in reasons(cluster)
    assert condition(cluster, key, ConditionType.ADMITTED).message == ("admitted to queue research")


def test_pods_wait_for_a_flavor_that_cannot_be_read(operator: Operator) -> None:
    key, cluster = queued(operator), operator.cluster
    kueue.admit(cluster, flavor="spot")
    operator.settle()
    assert not cluster.pods()
    assert str(cluster.status(key).message) == (
        f"Workload {kueue.the_workload(cluster)['metadata']['name']}: "
        "ResourceFlavor spot does not exist: create it, or name another one"
    )
    assert cluster.status(key).state == "FlavorUnreadable"
    assert "FlavorUnreadable" in reasons(cluster)
    cluster.cluster_objects[f"{FLAVORS}/spot"] = {"spec": {}}
    operator.wait(10)
    assert len(cluster.pods()) == 3
    assert cluster.status(key).state == "Starting"


def test_the_last_evaluation_waits_for_a_flavor_that_cannot_be_read(operator: Operator) -> None:
    cluster = operator.cluster
    cluster.cluster_objects[f"{FLAVORS}/spot"] = {"spec": {}}
    key = queued(operator, a_job().with_evaluator())
    kueue.admit(cluster, flavor="spot")
    go_on(operator)
    cluster.act(CHIEF, lambda pod: pod.exited(0))
    go_on(operator)
    cluster.collect("mnist-evaluator-0")
    cluster.failing["read"] = [errors.TransientError("no route to host")] * 4
    go_on(operator)
    assert list(cluster.pods()) == [CHIEF]
    operator.wait(20)
    assert "mnist-evaluator-0" in cluster.pods(), "within its grace"
    assert cluster.status(key).state == "Evaluating"


def test_a_priority_that_is_gone_keeps_no_lost_pod_away(operator: Operator) -> None:
    cluster = operator.cluster
    cluster.cluster_objects[f"{WORKLOAD_PRIORITIES}/low"] = {"value": 1}
    cluster.cluster_objects[f"{FLAVORS}/spot"] = {"spec": {}}
    key = queued(operator, a_job().with_label(keys.LABEL_WORKLOAD_PRIORITY, "low"))
    kueue.admit(cluster, flavor="spot")
    go_on(operator)

    def relabel(raw: Raw) -> None:
        raw["metadata"]["labels"][keys.LABEL_WORKLOAD_PRIORITY] = "missing"

    cluster.change(Kind.JOB, cluster.job(key), relabel)
    cluster.collect("mnist-worker-0")
    go_on(operator)
    assert "mnist-worker-0" in cluster.pods()


def test_a_template_that_contradicts_its_flavor_is_refused(operator: Operator) -> None:
    job = a_job()
    job.raw["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/pool": "other"}
    cluster = operator.cluster
    cluster.cluster_objects[f"{FLAVORS}/spot"] = {
        "spec": {"nodeLabels": {"example.com/pool": "spot"}}
    }
    key = queued(operator, job)
    kueue.admit(cluster, flavor="spot")
    operator.settle()
    assert not cluster.pods()
    message = str(cluster.status(key).message)
    assert "sets spec.nodeSelector.example.com/pool, which Kueue decided" in message
    assert "spec.scheduling" not in message


def test_a_preempted_job_saves_gives_back_its_quota_and_queues(operator: Operator) -> None:
    key, cluster = running(operator), operator.cluster
    before = dict(kueue.the_workload(cluster)["metadata"])
    cluster.clock.tick(100)
    kueue.evict(cluster)
    operator.settle()
    going = [n for n, p in cluster.pods().items() if "deletionTimestamp" in p["metadata"]]
    assert going == [CHIEF], "the chief saves while its servers still serve"
    status = cluster.status(key)
    assert f"Kueue: Preempted: {kueue.PREEMPTED}; stopping 3 pods" in str(status.message)
    assert condition(cluster, key, ConditionType.ADMITTED).reason == "Preempted"
    assert kueue.conditions(kueue.the_workload(cluster))["QuotaReserved"][0] == "True"

    go_on(operator)
    assert not cluster.pods()
    raw = kueue.the_workload(cluster)
    assert raw["metadata"]["uid"] == before["uid"], "its place in the queue is that of before"
    assert "admission" not in raw["status"]
    assert raw["status"]["accumulatedPastExecutionTimeSeconds"] == 100
    assert kueue.conditions(raw) == {
        "QuotaReserved": ("False", "Pending"),
        "Admitted": ("False", "NoReservation"),
        "Evicted": ("True", "Preempted"),
        "Requeued": ("True", "Preempted"),
        "PodsReady": ("False", "WaitForStart"),
    }
    found = queue_of(cluster, key)
    assert (found.evictions, found.preemptions, found.admitted_time) == (1, 1, None)

    cluster.clock.tick(50)
    kueue.admit(cluster)
    go_on(operator)
    status = cluster.status(key)
    assert (status.state, status.restarts, status.attempt) == ("Running", 0, 1)
    assert queue_of(cluster, key).wait_seconds == 50
    told = [r for r in reasons(cluster) if r in ("Queued", "Admitted", "Preempted")]
    assert told == ["Queued", "Admitted", "Preempted", "Queued", "Admitted"]


def test_an_eviction_for_another_reason_waits_until_kueue_ends_it(operator: Operator) -> None:
    running(operator)
    kueue.evict(operator.cluster, "ClusterQueueStopped", "the ClusterQueue is stopped")
    go_on(operator)
    found = kueue.conditions(kueue.the_workload(operator.cluster))
    assert found["Requeued"] == ("False", "ClusterQueueStopped")


def test_a_deactivated_workload_names_the_remedy(operator: Operator) -> None:
    key, cluster = running(operator), operator.cluster
    kueue.evict(cluster, "DeactivatedDueToRequeuingLimitExceeded", "too many times")
    cluster.change(
        Kind.WORKLOAD,
        kueue.the_workload(cluster),
        lambda raw: raw["spec"].update(active=False),
    )
    go_on(operator)
    raw = kueue.the_workload(cluster)
    assert kueue.conditions(raw)["Requeued"] == ("False", "Deactivated")
    name = raw["metadata"]["name"]
    message = f"too many times; to queue the job again, set spec.active of Workload {name} to true"
    assert str(cluster.status(key).message).endswith(message)


def test_quota_reserved_but_evicted_before_admission_is_given_back(operator: Operator) -> None:
    queued(operator)
    cluster = operator.cluster
    kueue.admit(cluster)
    kueue._write(cluster, Admitted=("False", "UnsatisfiedChecks", "not all checks ready"))
    operator.settle()
    assert not cluster.pods()
    kueue.evict(cluster, "AdmissionCheck", "a check says Retry")
    operator.settle()
    assert kueue.conditions(kueue.the_workload(cluster))["QuotaReserved"] == ("False", "Pending")


def test_a_workload_that_is_deleted_by_hand_ends_the_pods_and_is_made_again(
    operator: Operator,
) -> None:
    key, cluster = running(operator), operator.cluster
    before = kueue.the_workload(cluster)["metadata"]["uid"]
    kueue.delete(cluster)
    operator.settle()
    assert condition(cluster, key, ConditionType.ADMITTED).reason == "WorkloadDeleted"
    assert not kueue.workloads(cluster), "not before the last pod is gone"
    go_on(operator)
    assert not cluster.pods()
    assert kueue.the_workload(cluster)["metadata"]["uid"] != before
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).state == "Running"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_workload_that_loses_our_label_is_not_taken_for_deleted(
    operator: Operator, *, restarted: bool
) -> None:
    key, cluster = running(operator), operator.cluster
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    kueue.unlabel(cluster)
    if restarted:
        operator = Operator(cluster, operator.runner, offer=KUEUE)
    go_on(operator)
    reads = cluster.calls["get"]
    operator.wait(600)
    after = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    assert (cluster.status(key).state, after) == ("Running", before)
    assert cluster.calls["get"] == reads, "it is known"
    kueue.evict(cluster)
    go_on(operator)
    assert not cluster.pods(), "what Kueue says of it is still heard"
    assert kueue.conditions(kueue.the_workload(cluster))["QuotaReserved"][0] == "False"
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).state == "Running"


def test_partial_admission_down_to_min_replicas(operator: Operator) -> None:
    job = a_job().with_role("worker", replicas=4, minReplicas=2)
    key, cluster = queued(operator, job), operator.cluster
    worker = kueue.the_workload(cluster)["spec"]["podSets"][1]
    assert (worker["count"], worker["minCount"]) == (4, 2)
    kueue.admit(cluster, workers=2)
    go_on(operator)
    assert sorted(n for n in cluster.pods() if "worker" in n) == [
        *("mnist-worker-0", "mnist-worker-1"),
    ]
    status = cluster.status(key)
    assert (status.state, status.cluster_workers) == ("Running", 2)
    assert "with 2 of 4 workers" in condition(cluster, key, ConditionType.ADMITTED).message
    workers = cluster.pods()[CHIEF]["metadata"]["annotations"][keys.ANNOTATION_WORKERS]
    assert workers == "2"
    kueue.evict(cluster)
    go_on(operator)
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).cluster_workers == 4


def test_a_smaller_job_gives_back_quota_and_asks_for_it_again(operator: Operator) -> None:
    key, cluster = running(operator, a_job().with_workers(3)), operator.cluster
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=1))
    go_on(operator)
    raw = kueue.the_workload(cluster)
    assert raw["status"]["reclaimablePods"] == [{"name": "worker", "count": 2}]
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=3))
    go_on(operator)
    assert len([n for n in cluster.pods() if "worker" in n]) == 1
    assert "with 1 of 3 workers" in condition(cluster, key, ConditionType.ADMITTED).message
    assert kueue.extensions(cluster) == {1: 2}


def test_a_waiting_job_is_scaled_in_place(operator: Operator) -> None:
    key, cluster = queued(operator), operator.cluster
    uid = kueue.the_workload(cluster)["metadata"]["uid"]
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=5))
    operator.settle()
    raw = kueue.the_workload(cluster)
    assert raw["metadata"]["uid"] == uid
    assert kueue.summary(raw)["podSets"] == [("chief", 1), ("worker", 5), ("ps", 1)]


def test_another_queue_is_followed_while_the_job_waits(operator: Operator) -> None:
    key, cluster = queued(operator), operator.cluster
    relabel(cluster, key, "other")
    operator.settle()
    assert kueue.the_workload(cluster)["spec"]["queueName"] == "other"
    assert queue_of(cluster, key).name == "other"


def correct(cluster: FakeCluster, key: JobKey) -> None:
    """Its user suspends a job, changes what its pods need, and resumes it."""

    def change(spec: Raw) -> None:
        spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        spec["runPolicy"]["suspend"] = False

    cluster.suspend(key)
    cluster.edit(key, change)


def requested(raw: Raw) -> list[Any]:
    return [each["template"]["spec"]["containers"][0] for each in raw["spec"]["podSets"]]


@pytest.mark.parametrize("flavor", ["", "spot"])
def test_a_job_that_is_corrected_and_admitted_unseen_gets_quota_for_what_it_is_now(
    operator: Operator, flavor: str
) -> None:
    key, cluster = queued(operator), operator.cluster
    if flavor:
        kueue.admit(cluster, flavor=flavor)
        operator.settle()
        assert cluster.status(key).state == "FlavorUnreadable"
        cluster.cluster_objects[f"{FLAVORS}/{flavor}"] = {"spec": {}}
    correct(cluster, key)
    if not flavor:
        kueue.admit(cluster)
    go_on(operator)
    raw = kueue.the_workload(cluster)
    assert not cluster.pods(), "they would use more than there is quota for"
    assert "status" not in raw, "the old one had it"
    assert requested(raw) == [{"name": "tensorflow", "resources": {"requests": {"cpu": "4"}}}] * 3
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).state == "Running"
    assert kueue.the_workload(cluster)["metadata"]["uid"] == raw["metadata"]["uid"]


def test_a_job_that_is_scaled_and_admitted_unseen_keeps_its_quota(operator: Operator) -> None:
    key, cluster = queued(operator), operator.cluster
    uid = kueue.the_workload(cluster)["metadata"]["uid"]
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=3, minReplicas=1))
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).state == "Running"
    assert kueue.the_workload(cluster)["metadata"]["uid"] == uid


def test_quota_that_is_reserved_stays_in_the_queue_that_gave_it(operator: Operator) -> None:
    key, cluster = queued(operator), operator.cluster
    kueue.admit(cluster)
    kueue._write(cluster, Admitted=("False", "UnsatisfiedChecks", "not all checks ready"))
    operator.settle()
    relabel(cluster, key, "other")
    operator.settle()
    assert " in research: Kueue: quota is reserved" in str(cluster.status(key).message)
    kueue.admit(cluster)
    go_on(operator)
    assert queue_of(cluster, key).name == "research"
    found = condition(cluster, key, ConditionType.ADMITTED)
    assert (found.status, found.message) == ("True", "admitted to queue research")


def test_a_finished_job_gives_back_its_quota(operator: Operator) -> None:
    key, cluster = running(operator, a_job().with_evaluator()), operator.cluster
    cluster.act(CHIEF, lambda pod: pod.exited(0))
    go_on(operator)
    raw = kueue.the_workload(cluster)
    assert {each["name"] for each in raw["status"]["reclaimablePods"]} == {"chief", "worker", "ps"}
    cluster.act("mnist-evaluator-0", lambda pod: pod.exited(0))
    go_on(operator)
    assert cluster.status(key).state == "Succeeded"
    found = kueue.conditions(kueue.the_workload(cluster))
    assert found["Finished"] == ("True", "Succeeded")
    assert found["QuotaReserved"] == ("False", "Finished")
    assert found["Admitted"] == ("False", "Finished")


def test_a_finished_job_gives_back_its_quota_though_a_node_of_it_is_lost(
    operator: Operator,
) -> None:
    key, cluster = running(operator), operator.cluster
    cluster.lose_node("mnist-ps-0")
    cluster.act(CHIEF, lambda pod: pod.exited(0))
    go_on(operator)
    assert cluster.status(key).state == "Succeeded"
    assert "Finished" not in kueue.conditions(kueue.the_workload(cluster)), "one pod may still run"
    operator.wait(120)
    assert kueue.conditions(kueue.the_workload(cluster))["Finished"] == ("True", "Succeeded")


def test_a_failed_job_gives_back_its_quota(operator: Operator) -> None:
    key, cluster = running(operator), operator.cluster
    cluster.act(CHIEF, lambda pod: pod.exited(64))
    go_on(operator)
    assert cluster.status(key).state == "Failed"
    found = kueue.conditions(kueue.the_workload(cluster))
    assert found["Finished"] == ("True", "Failed")


def test_a_suspended_job_leaves_its_queue(operator: Operator) -> None:
    key, cluster = running(operator), operator.cluster
    cluster.suspend(key)
    operator.settle()
    assert kueue.workloads(cluster), "its pods still use the quota"
    go_on(operator)
    assert not kueue.workloads(cluster)
    assert cluster.status(key).state == "Suspended"
    cluster.resume(key)
    operator.settle()
    assert cluster.status(key).state == "Queued"
    assert kueue.workloads(cluster)
    assert not cluster.pods()


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("by_the_server", [False, True])
def test_a_suspended_job_gives_all_back_though_its_new_template_is_refused(
    operator: Operator, *, by_the_server: bool, resumed: bool
) -> None:
    key, cluster = running(operator), operator.cluster
    cluster.suspend(key)
    operator.settle()
    bad = errors.InvalidObjectError("spec.serviceAccountName: Invalid value", status=422)
    if by_the_server:
        cluster.refuse = lambda kind, _body: bad if kind is Kind.POD else None
    changed = {"serviceAccountName": "A"} if by_the_server else {"hostname": "a"}
    cluster.edit(key, lambda spec: spec["template"]["spec"].update(changed))
    cluster.edit(key, lambda spec: spec["runPolicy"].update(suspend=not resumed))
    go_on(operator)
    assert not cluster.pods()
    assert not kueue.workloads(cluster)
    assert cluster.status(key).state == "InvalidTemplate"


def test_a_job_that_runs_without_a_queue_stays_without(operator: Operator) -> None:
    cluster = operator.cluster
    key = cluster.submit(a_job().raw)
    go_on(operator)
    labels = {keys.LABEL_QUEUE: "research"}
    cluster.change(Kind.JOB, cluster.job(key), lambda raw: raw["metadata"].update(labels=labels))
    go_on(operator)
    assert cluster.status(key).state == "Running"
    assert not kueue.workloads(cluster)
    assert cluster.calls["read"] == 0, "nothing of Kueue is looked up in each pass"


def test_a_waiting_job_whose_queue_is_removed_starts_and_leaves_no_workload(
    operator: Operator,
) -> None:
    key, cluster = queued(operator), operator.cluster
    cluster.change(Kind.JOB, cluster.job(key), lambda raw: raw["metadata"].update(labels={}))
    go_on(operator)
    assert cluster.status(key).state == "Running"
    assert not kueue.workloads(cluster)


def test_a_job_that_leaves_its_queue_as_it_is_admitted_has_nothing_of_that(
    operator: Operator,
) -> None:
    cluster = operator.cluster
    cluster.cluster_objects[f"{FLAVORS}/spot"] = {"spec": {"nodeLabels": {"pool": "spot"}}}
    key = queued(operator)
    kueue.admit(cluster, flavor="spot")
    cluster.change(
        Kind.JOB, cluster.job(key), lambda raw: raw["metadata"]["labels"].pop(keys.LABEL_QUEUE)
    )
    go_on(operator)
    assert (cluster.status(key).state, kueue.workloads(cluster)) == ("Running", [])
    for pod in cluster.pods().values():
        assert "nodeSelector" not in pod["spec"]
        assert keys.ANNOTATION_WORKLOAD not in pod["metadata"]["annotations"]


def test_the_queue_may_be_in_the_spec_but_not_be_two(operator: Operator) -> None:
    cluster = operator.cluster
    key = cluster.submit(a_job().with_spec(scheduling={"queue": "research"}).raw)
    operator.settle()
    assert kueue.the_workload(cluster)["spec"]["queueName"] == "research"
    other = a_job().named("other", uid="uid-2").with_spec(scheduling={"queue": "research"})
    other.with_label(keys.LABEL_QUEUE, "production")
    second = cluster.submit(other.raw)
    operator.settle()
    assert cluster.status(second).state == "InvalidSpec"
    assert "remove one of the two" in str(cluster.status(second).message)
    assert cluster.status(key).state == "Queued"


def test_a_job_that_came_to_name_two_queues_gives_back_its_quota_when_it_is_evicted(
    operator: Operator,
) -> None:
    cluster = operator.cluster
    key = cluster.submit(a_job().with_spec(scheduling={"queue": "research"}).raw)
    operator.settle()
    kueue.admit(cluster)
    go_on(operator)
    relabel(cluster, key, "production")
    go_on(operator)
    assert cluster.status(key).state == "Running"
    kueue.evict(cluster)
    go_on(operator)
    assert not cluster.pods()
    found = kueue.conditions(kueue.the_workload(cluster))
    assert (found["QuotaReserved"][0], found["Admitted"][0]) == ("False", "False")
    assert "remove one of the two" in str(cluster.status(key).message)
    relabel(cluster, key, "research")
    operator.settle()
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).state == "Running"


def test_volcanos_queue_is_none_of_kueue(cluster: FakeCluster, runner: asyncio.Runner) -> None:
    operator = Operator(
        cluster, runner, offer=Offer({Gang.VOLCANO: "v1beta1"}, workloads=Availability.USABLE)
    )
    cluster.submit(a_job().with_spec(scheduling={"gang": "Volcano", "queue": "research"}).raw)
    operator.settle()
    assert not kueue.workloads(cluster)
    assert len(cluster.pods()) == 3


def test_a_gang_is_formed_when_the_job_is_admitted(
    cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    operator = Operator(
        cluster, runner, offer=Offer({Gang.IN_TREE: "v1beta1"}, workloads=Availability.USABLE)
    )
    queued(operator)
    groups = [name for kind, _, name in cluster.objects if kind is GROUPS[Gang.IN_TREE]]
    assert not groups
    kueue.admit(cluster)
    operator.settle()
    assert all("schedulingGroup" in pod["spec"] for pod in cluster.pods().values())
    assert len(cluster.pods()) == 3


VOLCANO = Offer({Gang.VOLCANO: "v1beta1"}, workloads=Availability.USABLE)


def admitted_again(operator: Operator, offer: Offer) -> JobKey:
    """Have a job of a gang of Volcano be preempted, and admitted when the cluster offers this."""
    key = running(operator, a_job().with_spec(scheduling={"gang": "Volcano"}))
    kueue.evict(operator.cluster)
    go_on(operator)
    operator.offer = offer
    kueue.admit(operator.cluster)
    operator.wait(31)
    assert operator.cluster.status(key).state == "SchedulerUnavailable"
    return key


def test_a_job_that_is_admitted_again_gives_its_quota_back_where_its_scheduler_is_gone(
    cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    operator = Operator(cluster, runner, offer=VOLCANO)
    key = admitted_again(operator, KUEUE)
    assert not kueue.workloads(cluster), "nor does it queue again"
    operator.wait(300)
    assert not kueue.workloads(cluster)

    operator.offer = VOLCANO
    operator.wait(31)
    assert cluster.status(key).state == "Queued"
    kueue.admit(cluster)
    go_on(operator)
    assert cluster.status(key).state == "Running"


def test_a_job_that_is_admitted_again_keeps_its_quota_while_its_scheduler_may_be_there(
    cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    operator = Operator(cluster, runner, offer=VOLCANO)
    key = admitted_again(
        operator, Offer(workloads=Availability.USABLE, silent=frozenset({Gang.VOLCANO}))
    )
    assert kueue.workloads(cluster)

    operator.offer = VOLCANO
    operator.wait(31)
    go_on(operator)
    assert cluster.status(key).state == "Running"


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        (Offer(), "the cluster does not serve workloads.v1beta2.kueue.x-k8s.io"),
        (Offer(workloads=Availability.FORBIDDEN), "set scheduling.kueue=true in its chart"),
        (
            Offer(workloads=Availability.SILENT),
            "cannot list workloads.v1beta2.kueue.x-k8s.io at present",
        ),
    ],
)
def test_a_queue_without_kueue_is_said_at_once(
    cluster: FakeCluster, runner: asyncio.Runner, offer: Offer, words: str
) -> None:
    operator = Operator(cluster, runner, offer=offer)
    key = queued(operator)
    status = cluster.status(key)
    assert status.state == "SchedulerUnavailable"
    assert words in str(status.message)
    assert not cluster.pods()
    operator.offer = KUEUE
    operator.wait(31)
    assert cluster.status(key).state == "Queued"


@pytest.mark.parametrize(
    "offer",
    [
        Offer(workloads=Availability.SILENT),
        Offer(workloads=Availability.USABLE, silent=frozenset({Gang.VOLCANO})),
    ],
)
def test_a_job_is_not_failed_for_an_api_that_has_not_answered_yet(
    cluster: FakeCluster, runner: asyncio.Runner, offer: Offer
) -> None:
    operator = Operator(cluster, runner, offer=offer)
    scheduling = {"gang": "Volcano" if offer.silent else "None"}
    key = queued(operator, a_job().with_spec(scheduling=scheduling))
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.completion_time) == ("SchedulerUnavailable", None)
    operator.offer = VOLCANO
    operator.wait(31)
    assert cluster.status(key).state == "Queued"


def test_a_preempted_job_that_cannot_be_understood_waits_for_who_understands_it(
    operator: Operator,
) -> None:
    key, cluster = running(operator), operator.cluster
    operator.wait(20)
    kueue.evict(cluster)
    operator.settle()
    go_on(operator)
    assert cluster.status(key).state == "Queued"
    cluster.edit(key, lambda spec: spec.update(strategy="TPU"))
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.completion_time) == ("Queued", None)
    assert "spec.strategy: must be one of" in (status.message or "")


def test_a_job_that_ran_waits_for_kueue_when_it_is_resumed(operator: Operator) -> None:
    def suspended(*, value: bool) -> None:
        policy = {"suspend": value}
        cluster.edit(key, lambda spec: spec.setdefault("runPolicy", {}).update(policy))
        operator.settle()
        go_on(operator)

    key, cluster = running(operator), operator.cluster
    suspended(value=True)
    operator.offer = Offer()
    suspended(value=False)
    operator.wait(3600)
    status = cluster.status(key)
    assert (status.state, status.completion_time) == ("SchedulerUnavailable", None)
    operator.offer = KUEUE
    operator.wait(31)
    assert cluster.status(key).state == "Queued"


def test_a_job_runs_on_while_kueues_api_is_away(operator: Operator) -> None:
    key, cluster = running(operator), operator.cluster
    operator.offer = Offer()
    for raw in kueue.workloads(cluster):
        operator.store.forget(Kind.WORKLOAD, key, raw["metadata"]["name"], raw["metadata"]["uid"])
    operator.look(key)
    go_on(operator)
    assert cluster.status(key).state == "Running"
    assert len(cluster.pods()) == 3


def test_a_pod_that_is_lost_while_kueue_is_away_is_said_to_wait_for_it(operator: Operator) -> None:
    key, cluster = running(operator), operator.cluster
    known = kueue.workloads(cluster)
    operator.offer = Offer()
    for raw in known:
        operator.store.forget(Kind.WORKLOAD, key, raw["metadata"]["name"], raw["metadata"]["uid"])
    cluster.collect("mnist-worker-0")
    go_on(operator)
    found = condition(cluster, key, ConditionType.PODS_READY)
    name = known[0]["metadata"]["name"]
    assert found.reason == "SchedulerUnavailable"
    assert found.message == (
        f"Workload {name}: without Kueue no pod is created: the cluster does not serve"
        " workloads.v1beta2.kueue.x-k8s.io, which needs Kueue 0.15 or newer"
    )
    cluster.collect(CHIEF)
    go_on(operator)
    assert cluster.status(key).state == "SchedulerUnavailable"
    assert not cluster.pods().keys() & {CHIEF, "mnist-worker-0"}
    operator = Operator(cluster, operator.runner, offer=KUEUE)
    go_on(operator)
    assert cluster.status(key).state == "Running"
    assert len(cluster.pods()) == 3


def test_a_workload_that_cannot_be_written_does_not_stop_a_running_job(
    operator: Operator,
) -> None:
    key, cluster = running(operator), operator.cluster
    away = errors.TransientError("500: failed calling webhook", status=500)
    cluster.failing["patch_workload"] = [away]
    cluster.act("mnist-worker-0", lambda pod: pod.exited(1))
    go_on(operator)
    assert cluster.status(key).state == "Running"
    operator.wait(12)
    assert cluster.made["mnist-worker-0"] == 2
    go_on(operator)
    cluster.failing["patch_workload"] = []
    cluster.act("mnist-worker-0", lambda pod: pod.running(ready=False))
    operator.wait(20)
    found = kueue.conditions(kueue.the_workload(cluster))
    assert found["PodsReady"] == ("False", "WaitForRecovery")


def test_a_workload_that_kueue_refuses_is_shown(operator: Operator) -> None:
    def refuse(kind: Kind, _body: Raw) -> errors.ApiError | None:
        words = "admission webhook denied the request: too many pod sets"
        return errors.ForbiddenError(words, status=403) if kind is Kind.WORKLOAD else None

    operator.cluster.refuse = refuse
    key = queued(operator)
    message = str(operator.cluster.status(key).message)
    assert "could not be written: admission webhook denied the request" in message
    operator.cluster.refuse = lambda _kind, _body: None
    operator.wait(20)
    assert kueue.workloads(operator.cluster)


@pytest.mark.parametrize(
    ("label", "spec", "objects", "priority"),
    [
        pytest.param(
            "urgent",
            {},
            {f"{WORKLOAD_PRIORITIES}/urgent": {"value": 100}},
            (100, ("kueue.x-k8s.io", "WorkloadPriorityClass", "urgent")),
            id="of Kueue's own class",
        ),
        pytest.param(
            "",
            {"scheduling": {"priorityClassName": "high"}},
            {f"{PRIORITIES}/high": {"value": 7}},
            (7, ("scheduling.k8s.io", "PriorityClass", "high")),
            id="of the pods' class",
        ),
        pytest.param(
            "",
            {},
            {
                PRIORITIES: {
                    "items": [{"metadata": {"name": "d"}, "globalDefault": True, "value": 3}]
                }
            },
            (3, ("scheduling.k8s.io", "PriorityClass", "d")),
            id="of the cluster's default class",
        ),
    ],
)
def test_the_priority_is(
    operator: Operator, label: str, spec: Raw, objects: Raw, priority: tuple[int, tuple[str, ...]]
) -> None:
    operator.cluster.cluster_objects |= objects
    job = a_job().with_spec(**spec)
    if label:
        job.with_label(keys.LABEL_WORKLOAD_PRIORITY, label)
    queued(operator, job)
    found = kueue.the_workload(operator.cluster)["spec"]
    assert (found["priority"], tuple(found["priorityClassRef"].values())) == priority


def test_a_priority_that_does_not_exist_is_said(operator: Operator) -> None:
    cluster = operator.cluster
    key = queued(operator, a_job().with_label(keys.LABEL_WORKLOAD_PRIORITY, "urgent"))
    words = "WorkloadPriorityClass urgent does not exist: create it, or name another one"
    assert str(cluster.status(key).message).endswith(words)
    cluster.cluster_objects[f"{WORKLOAD_PRIORITIES}/urgent"] = {"value": 100}
    operator.wait(10)
    assert kueue.the_workload(cluster)["spec"]["priority"] == 100


@pytest.mark.parametrize(
    "name",
    ["../../../../api/v1/pods?watch=true#", "..", "a/b", "a?b", "UPPER", "a" * 254, "a%2fb", "a\n"],
)
def test_no_priority_class_leads_to_another_object(operator: Operator, name: str) -> None:
    asked: list[str] = []
    read = operator.cluster.read

    async def observed(path: str) -> Raw:
        asked.append(path)
        return await read(path)

    operator.cluster.read = observed  # type: ignore[method-assign]
    template = {"spec": {"containers": [{"name": "tensorflow"}], "priorityClassName": name}}
    key = queued(operator, a_job().with_spec(template=template))
    assert "is no name of a PriorityClass: correct it" in str(operator.cluster.status(key).message)
    assert asked == []


def test_another_priority_is_followed_while_the_job_runs(operator: Operator) -> None:
    cluster = operator.cluster
    for name, value in (("low", 1), ("urgent", 100)):
        cluster.cluster_objects[f"{WORKLOAD_PRIORITIES}/{name}"] = {"value": value}
    key = running(operator, a_job().with_label(keys.LABEL_WORKLOAD_PRIORITY, "low"))

    def relabel(raw: Raw) -> None:
        raw["metadata"]["labels"][keys.LABEL_WORKLOAD_PRIORITY] = "urgent"

    cluster.change(Kind.JOB, cluster.job(key), relabel)
    operator.settle()
    assert kueue.the_workload(cluster)["spec"]["priority"] == 100
    assert cluster.status(key).state == "Running"


def test_a_priority_that_a_running_job_cannot_get_is_said(operator: Operator) -> None:
    cluster = operator.cluster
    cluster.cluster_objects[f"{WORKLOAD_PRIORITIES}/low"] = {"value": 1}
    key = running(operator, a_job().with_label(keys.LABEL_WORKLOAD_PRIORITY, "low"))

    def relabel(raw: Raw) -> None:
        raw["metadata"]["labels"][keys.LABEL_WORKLOAD_PRIORITY] = "urgent"

    cluster.change(Kind.JOB, cluster.job(key), relabel)
    operator.settle()
    problem = "WorkloadPriorityClass urgent does not exist: create it, or name another one"
    found = condition(cluster, key, ConditionType.ADMITTED)
    assert (found.status, found.message) == ("True", f"admitted to queue research; {problem}")
    cluster.cluster_objects[f"{WORKLOAD_PRIORITIES}/urgent"] = {"value": 100}
    operator.wait(6)
    assert kueue.the_workload(cluster)["spec"]["priority"] == 100
    found = condition(cluster, key, ConditionType.ADMITTED)
    assert found.message == "admitted to queue research"


def test_topology_is_asked_for_as_in_other_jobs_of_kueue(operator: Operator) -> None:
    job, cluster = a_job(), operator.cluster
    job.raw["spec"]["template"]["metadata"] = {
        "annotations": {"kueue.x-k8s.io/podset-preferred-topology": "example.com/rack"}
    }
    queued(operator, job)
    asked = kueue.the_workload(cluster)["spec"]["podSets"][1]["topologyRequest"]
    assert asked == {"preferred": "example.com/rack", "podIndexLabel": keys.LABEL_INDEX}
    kueue.admit(cluster)

    def place(raw: Raw) -> None:
        for each in raw["status"]["admission"]["podSetAssignments"]:
            each["topologyAssignment"] = {"levels": ["example.com/rack"], "slices": []}

    cluster.change(Kind.WORKLOAD, kueue.the_workload(cluster), place)
    operator.settle()
    for pod in cluster.pods().values():
        assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]
        annotations = pod["metadata"]["annotations"]
        assert annotations["kueue.x-k8s.io/podset-preferred-topology"] == "example.com/rack"


def test_a_job_of_another_controller_is_left_alone(operator: Operator) -> None:
    job = a_job().with_policy(managedBy="example.com/queue")
    queued(operator, job)
    assert not kueue.workloads(operator.cluster)


def test_a_pod_that_is_gone_is_made_again_with_its_quota(operator: Operator) -> None:
    key, cluster = running(operator), operator.cluster
    cluster.collect("mnist-worker-0")
    go_on(operator)
    annotations: dict[str, Any] = cluster.pods()["mnist-worker-0"]["metadata"]["annotations"]
    assert annotations[keys.ANNOTATION_WORKLOAD] == kueue.the_workload(cluster)["metadata"]["uid"]
    assert queue_of(cluster, key).evictions == 0
