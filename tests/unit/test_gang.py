"""Gangs in whole passes: nothing has a node until all have, and what becomes of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.conditions import find
from tftraining_operator.core.gang import next_gang
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import GROUPS, JobKey, Kind

from tests.unit.builders import NOW, JobBuilder, PodBuilder, Raw, a_job, seen
from tests.unit.fakes import FakeCluster, Operator, at_rest, condition

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


IN_TREE = Offer({Gang.IN_TREE: "v1beta1"})
NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu."
ASK_FOR_LESS = f"{NO_ROOM[:-1]}; request less (resources of the template), or add nodes"


@pytest.fixture
def operator(cluster: FakeCluster, runner: asyncio.Runner) -> Operator:
    return Operator(cluster, runner, offer=IN_TREE)


def submitted(operator: Operator, job: JobBuilder) -> JobKey:
    key = operator.cluster.submit(job.raw)
    operator.settle()
    return key


def placed(operator: Operator, job: JobBuilder) -> JobKey:
    """Submit a job and let it run."""
    key = submitted(operator, job)
    while operator.cluster.run_pods():
        operator.settle()
    return key


def groups(cluster: FakeCluster, gang: Gang = Gang.IN_TREE) -> dict[str, Raw]:
    return {name: raw for (kind, _, name), raw in cluster.objects.items() if kind is GROUPS[gang]}


def the_group(cluster: FakeCluster) -> str:
    (name,) = groups(cluster)
    return name


def of_pods(cluster: FakeCluster) -> dict[str, str | None]:
    """The group of each pod."""
    return {
        name: (raw["spec"].get("schedulingGroup") or {}).get("podGroupName")
        for name, raw in cluster.pods().items()
    }


def events(cluster: FakeCluster) -> list[tuple[str, str]]:
    return [(event["reason"], event["note"]) for event in cluster.events]


def no_room(operator: Operator) -> None:
    for name in operator.cluster.pods():
        operator.cluster.act(name, lambda pod: pod.unschedulable(NO_ROOM))
    operator.settle()


def not_connected(operator: Operator) -> None:
    """Give every pod a node; servers become ready, and the chief waits for others."""
    for name in operator.cluster.pods():
        ready = "chief" not in name
        operator.cluster.act(name, lambda pod, ready=ready: pod.running(ready=ready))
    operator.settle()


def scaled(operator: Operator, key: JobKey, workers: int) -> None:
    operator.cluster.edit(key, lambda spec: spec["worker"].update(replicas=workers))
    operator.settle()


def suspended(operator: Operator, key: JobKey, *, value: bool) -> None:
    policy = {"suspend": value}
    operator.cluster.edit(key, lambda spec: spec.setdefault("runPolicy", {}).update(policy))
    operator.settle()


def test_all_pods_of_the_cluster_wait_in_one_group(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job().with_workers(2))
    name = the_group(cluster)
    group = groups(cluster)[name]
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 4}}}
    assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert group["metadata"]["ownerReferences"][0]["uid"] == cluster.job(key)["metadata"]["uid"]
    tasks = ("chief-0", "ps-0", "worker-0", "worker-1")
    assert of_pods(cluster) == {f"mnist-{task}": name for task in tasks}
    gang = cluster.status(key).gang
    assert gang is not None
    assert (gang.group, gang.members, gang.scheduled_time) == (name, 4, None)


def test_the_group_is_there_before_the_pods(operator: Operator, cluster: FakeCluster) -> None:
    submitted(operator, a_job())
    kinds = [kind for what, kind, _ in cluster.watch if what == "ADDED"]
    assert kinds.index(Kind.IN_TREE_GROUP) < kinds.index(Kind.POD)


def test_what_training_can_begin_without_waits_for_the_gang(
    operator: Operator, cluster: FakeCluster
) -> None:
    job = a_job().with_role("worker", replicas=3, minReplicas=1).with_evaluator()
    key = submitted(operator, job)
    assert set(cluster.pods()) == {"mnist-chief-0", "mnist-ps-0", "mnist-worker-0"}

    cluster.run_pods()
    operator.settle()
    rest = ("mnist-evaluator-0", "mnist-worker-1", "mnist-worker-2")
    assert {name: group for name, group in of_pods(cluster).items() if name in rest} == (
        dict.fromkeys(rest)
    )
    gang = cluster.status(key).gang
    assert gang is not None
    assert gang.scheduled_time is not None


@pytest.mark.parametrize(
    ("job", "members"),
    [
        pytest.param(a_job().with_workers(3), 5, id="all workers, where none may be missing"),
        pytest.param(
            a_job().with_role("worker", replicas=3, minReplicas=2), 4, id="minReplicas workers"
        ),
        pytest.param(a_job().with_role("ps", replicas=3), 5, id="all ps"),
        pytest.param(a_job().mirrored(workers=3), 4, id="all of MultiWorkerMirrored"),
        pytest.param(a_job().with_evaluator(), 3, id="not the evaluator"),
    ],
)
def test_the_size_of_a_gang_is_derived(
    operator: Operator, cluster: FakeCluster, job: JobBuilder, members: int
) -> None:
    submitted(operator, job)
    (group,) = groups(cluster).values()
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == members


def test_a_groups_name_fits_into_a_label() -> None:
    raw = a_job().named("m" * 51).with_workers(1000)
    raw.raw["status"] = {"attempt": 2**31 - 1}
    job = raw.build()
    gang = next_gang(job, seen(job), IN_TREE, NOW)
    assert gang is not None
    assert len(gang.group) <= 63


@pytest.mark.parametrize(
    ("job", "offer"),
    [
        pytest.param(a_job(), Offer(), id="a cluster without the API"),
        pytest.param(a_job().with_spec(scheduling={"gang": "None"}), IN_TREE, id="gang None"),
        pytest.param(a_job().mirrored(), IN_TREE, id="a job of one pod"),
        pytest.param(
            a_job().with_role("ps", template={"spec": {"priorityClassName": "high"}}),
            IN_TREE,
            id="pods of several priorities",
        ),
    ],
)
def test_pods_are_scheduled_one_by_one_with(
    operator: Operator, cluster: FakeCluster, job: JobBuilder, offer: Offer
) -> None:
    operator.offer = offer
    key = submitted(operator, job)
    assert cluster.pods()
    assert set(of_pods(cluster).values()) == {None}
    assert not groups(cluster)
    assert cluster.status(key).gang is None


def test_a_template_with_a_scheduler_of_its_own_is_left_to_it(
    operator: Operator, cluster: FakeCluster
) -> None:
    job = a_job()
    job.raw["spec"]["template"]["spec"]["schedulerName"] = "elsewhere"
    submitted(operator, job)
    assert set(of_pods(cluster).values()) == {None}


def test_pods_of_a_running_job_stay_when_gangs_become_possible(
    operator: Operator, cluster: FakeCluster
) -> None:
    operator.offer = Offer()
    key = placed(operator, a_job())
    before = {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()}
    operator.offer = IN_TREE
    scaled(operator, key, 2)
    assert not groups(cluster)
    after = {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()}
    assert before.items() <= after.items()


def test_a_waiting_job_says_for_what_and_since_when(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job())
    since = cluster.status(key).start_time
    cluster.clock.tick(60)
    no_room(operator)
    status = cluster.status(key)
    assert status.state == "Queued"
    assert status.message == f"waiting since {since} for nodes for all 3 pods: {ASK_FOR_LESS}"

    cluster.clock.tick(30)
    cluster.run_pods()
    operator.settle()
    told = [(reason, note) for reason, note in events(cluster) if "ang" in reason + note]
    assert ("GangScheduled", "all 3 pods have a node, after waiting for 90 s") in told
    assert cluster.status(key).state != "Queued"


def test_a_gang_that_gets_its_nodes_one_after_the_other_is_queued_until_the_last(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job())
    no_room(operator)
    for name in cluster.pods():
        assert cluster.status(key).state == "Queued"
        cluster.act(name, lambda pod: pod.running().condition("PodScheduled", value=True))
        operator.settle()
    assert cluster.status(key).state != "Queued"
    assert "GangScheduled" in [reason for reason, _ in events(cluster)]


def test_what_says_most_is_shown(operator: Operator, cluster: FakeCluster) -> None:
    def shown() -> str:
        operator.settle()
        return (cluster.status(key).message or "").rpartition(" pods: ")[2]

    key = submitted(operator, a_job())
    cluster.act("mnist-ps-0", lambda pod: pod.unschedulable("waits for the others"))
    assert shown() == "waits for the others"

    said = {"type": "PodGroupScheduled", "status": "False", "message": "waits for preemption"}
    (group,) = groups(cluster).values()
    cluster.change(Kind.IN_TREE_GROUP, group, lambda raw: raw.update(status={"conditions": [said]}))
    assert shown() == "waits for preemption"

    cluster.act("mnist-worker-0", lambda pod: pod.unschedulable(NO_ROOM))
    assert shown() == ASK_FOR_LESS


def test_what_a_pod_lacks_is_shown_before_what_the_others_wait_for(
    operator: Operator, cluster: FakeCluster
) -> None:
    operator.offer = Offer({Gang.POD_GROUP: "v1alpha1"})
    key = submitted(operator, a_job().with_spec(scheduling={"gang": "PodGroup"}))
    rejected = "0/1 nodes are available: 1 optimistic rejection in PostFilter."
    for name in cluster.pods():
        cluster.act(name, lambda pod: pod.unschedulable(rejected))
    operator.settle()
    assert (cluster.status(key).message or "").endswith(f" pods: {rejected}")
    for name in cluster.pods():
        cluster.act(name, lambda pod: pod.unschedulable(NO_ROOM))
        operator.settle()
        assert (cluster.status(key).message or "").endswith(f" pods: {ASK_FOR_LESS}")
        cluster.act(name, lambda pod: pod.unschedulable(rejected))


def test_a_scheduler_that_says_nothing_is_named_after_a_while(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job())
    assert cluster.status(key).state == "Starting"
    operator.wait(11)
    assert cluster.status(key).state == "Queued"
    assert "its scheduler (InTree) has not said why" in (cluster.status(key).message or "")


def test_waiting_does_not_count_towards_the_startup_deadline(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job().with_policy(startupDeadlineSeconds=60))
    no_room(operator)
    operator.wait(3600)
    assert cluster.status(key).state == "Queued"

    for name in cluster.pods():
        cluster.act(name, lambda pod: pod.running(ready=False))
    operator.wait(59)
    assert find(cluster.status(key).conditions, ConditionType.FAILED) is None
    operator.wait(2)
    failed = condition(cluster, key, ConditionType.FAILED)
    assert failed.reason == "StartupDeadlineExceeded"


def test_waiting_counts_towards_the_active_deadline(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job().with_policy(activeDeadlineSeconds=60))
    no_room(operator)
    operator.wait(61)
    assert condition(cluster, key, ConditionType.FAILED).reason == "DeadlineExceeded"


def test_a_waiting_gang_without_a_chief_is_formed_anew_without_a_restart(
    operator: Operator, cluster: FakeCluster
) -> None:
    full = errors.ForbiddenError("exceeded quota: pods=2", status=403)
    cluster.refuse = lambda kind, body: (
        full if kind is Kind.POD and "chief" in body["metadata"]["name"] else None
    )
    key = submitted(operator, a_job().with_workers(2))
    scaled(operator, key, 1)
    status = cluster.status(key)
    assert (status.attempt, status.last_restart) == (0, None), "nobody knew of the other workers"
    assert status.gang is not None
    assert status.gang.members == 3


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3)], ids=["fewer", "more"])
def test_a_waiting_gang_is_formed_anew_when_the_job_is_scaled(
    operator: Operator, cluster: FakeCluster, before: int, after: int
) -> None:
    key = submitted(operator, a_job().with_workers(before))
    since = cluster.status(key).gang
    cluster.clock.tick(5)
    scaled(operator, key, after)
    name = the_group(cluster)
    assert groups(cluster)[name]["spec"]["schedulingPolicy"]["gang"]["minCount"] == after + 2
    assert len(cluster.pods()) == after + 2
    assert set(of_pods(cluster).values()) == {name}
    status = cluster.status(key)
    assert since is not None
    assert status.gang is not None
    assert status.gang.waiting_since == since.waiting_since
    assert status.last_restart is not None
    assert (status.last_restart.reason, status.restarts) == ("Scaled", 0)


def test_a_gang_that_is_formed_anew_still_says_for_what_it_waits(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job())
    no_room(operator)
    scaled(operator, key, 2)
    no_room(operator)
    status = cluster.status(key)
    assert status.state == "Queued"
    assert (status.message or "").endswith(f" for nodes for all 4 pods: {ASK_FOR_LESS}")


def test_workers_that_join_a_running_job_are_scheduled_by_themselves(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = placed(operator, a_job())
    name = the_group(cluster)
    scaled(operator, key, 2)
    assert of_pods(cluster)["mnist-worker-1"] is None
    assert the_group(cluster) == name


def test_a_replaced_chief_is_scheduled_by_itself(operator: Operator, cluster: FakeCluster) -> None:
    key = placed(operator, a_job())
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    operator.settle()
    operator.wait(30)
    assert cluster.status(key).attempt == 1
    assert of_pods(cluster)["mnist-chief-0"] is None


def test_where_all_pods_begin_anew_each_attempt_is_a_gang(
    operator: Operator, cluster: FakeCluster
) -> None:
    placed(operator, a_job().mirrored(workers=2))
    first = the_group(cluster)
    cluster.act("mnist-worker-1", lambda pod: pod.exited(1))
    at_rest(operator)
    operator.wait(30)
    second = the_group(cluster)
    assert second != first
    assert of_pods(cluster) == {
        f"mnist-{task}": second for task in ("chief-0", "worker-0", "worker-1")
    }


def test_a_gang_that_begins_anew_does_not_wait_for_a_member_that_is_to_join_later(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = placed(operator, a_job().mirrored(workers=2))
    scaled(operator, key, 3)
    cluster.act("mnist-worker-2", lambda pod: pod.unschedulable(NO_ROOM))
    cluster.act("mnist-worker-1", lambda pod: pod.exited(1))
    operator.settle()
    for _ in range(3):
        for name in set(cluster.pods()) - {"mnist-worker-2"}:
            raw = cluster.pods()[name]
            if "deletionTimestamp" in raw["metadata"]:
                cluster.collect(name)
            elif raw["status"]["phase"] == "Pending":
                cluster.act(name, PodBuilder.running)
        operator.wait(20)
    assert groups(cluster)[the_group(cluster)]["spec"]["schedulingPolicy"]["gang"]["minCount"] == 3
    assert (cluster.status(key).state, cluster.status(key).attempt) == ("Running", 1)
    assert of_pods(cluster)["mnist-worker-2"] is None, "it is scheduled by itself"


def test_suspension_removes_the_group_and_resuming_forms_another(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = placed(operator, a_job())
    first = the_group(cluster)
    suspended(operator, key, value=True)
    while cluster.run_pods():
        operator.settle()
    assert not cluster.pods()
    assert not groups(cluster)
    assert cluster.status(key).gang is None

    suspended(operator, key, value=False)
    second = the_group(cluster)
    assert second != first
    assert of_pods(cluster) == {f"mnist-{task}": second for task in ("chief-0", "ps-0", "worker-0")}


def test_the_end_of_a_job_removes_its_group(operator: Operator, cluster: FakeCluster) -> None:
    placed(operator, a_job())
    assert groups(cluster)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.settle()
    assert not groups(cluster)


def test_volcano_has_a_group_for_later_pods_as_long_as_the_job_runs(
    operator: Operator, cluster: FakeCluster
) -> None:
    operator.offer = Offer({Gang.VOLCANO: "v1beta1"})
    submitted(operator, a_job().with_spec(scheduling={"gang": "Volcano"}))
    (name,) = groups(cluster, Gang.VOLCANO)
    cluster.run_pods()
    operator.settle()
    assert set(groups(cluster, Gang.VOLCANO)) == {name, f"{name}-later"}
    cluster.act("mnist-worker-0", lambda pod: pod.exited(1))
    operator.wait(60)
    worker = cluster.pods()["mnist-worker-0"]["metadata"]["annotations"]
    assert worker["scheduling.k8s.io/group-name"] == f"{name}-later"
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.settle()
    assert not groups(cluster, Gang.VOLCANO)


@pytest.mark.parametrize("runs", [False, True], ids=["waits", "runs"])
def test_a_group_that_somebody_deletes_is_made_again(
    operator: Operator, cluster: FakeCluster, *, runs: bool
) -> None:
    (placed if runs else submitted)(operator, a_job())
    name = the_group(cluster)
    del cluster.objects[Kind.IN_TREE_GROUP, "default", name]
    key = JobKey("default", "mnist")
    operator.store.replace(Kind.IN_TREE_GROUP, [], "0", None, operator.store.mark())
    operator.look(key)
    operator.settle()
    assert the_group(cluster) == name


@pytest.mark.parametrize("gang", [Gang.IN_TREE, Gang.POD_GROUP])
def test_a_running_job_goes_on_without_the_scheduler_of_its_gang(
    operator: Operator, cluster: FakeCluster, gang: Gang
) -> None:
    operator.offer = Offer({gang: "v1"})
    key = placed(operator, a_job().with_spec(scheduling={"gang": gang.value}))
    for kind, namespace, name in list(cluster.objects):
        if kind is GROUPS[gang]:
            del cluster.objects[kind, namespace, name]
    gone = errors.NotFoundError("the server could not find the requested resource", status=404)
    cluster.refuse = lambda kind, _body: gone if kind is GROUPS[gang] else None
    operator = Operator(cluster, operator.runner, offer=Offer())
    operator.look(key)
    operator.settle()
    assert condition(cluster, key, ConditionType.PODS_READY).status == "True"
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    operator.wait(60)
    while cluster.run_pods():
        operator.settle()
    status = cluster.status(key)
    assert (status.state, status.restarts) == ("Running", 1)


def lose_the_owner(cluster: FakeCluster) -> str:
    """Take the owner from the job's group, as a restored backup does; return its name."""
    name = the_group(cluster)
    del cluster.objects[Kind.IN_TREE_GROUP, "default", name]["metadata"]["ownerReferences"]
    return name


def lose_the_group(cluster: FakeCluster) -> str:
    """Delete the job's group, and let none be created; return its name."""
    name = the_group(cluster)
    del cluster.objects[Kind.IN_TREE_GROUP, "default", name]
    refused = errors.ForbiddenError("may not create podgroups", status=403)
    cluster.refuse = lambda kind, _body: refused if kind is Kind.IN_TREE_GROUP else None
    return name


@pytest.mark.parametrize(
    ("lose", "reason"), [(lose_the_owner, "NameConflict"), (lose_the_group, "Refused")]
)
def test_a_job_that_runs_gets_its_lost_pods_whatever_became_of_its_group(
    operator: Operator,
    cluster: FakeCluster,
    lose: Callable[[FakeCluster], str],
    reason: str,
) -> None:
    key = placed(operator, a_job())
    name = lose(cluster)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    cluster.collect("mnist-worker-0")
    operator = Operator(cluster, operator.runner, offer=IN_TREE)
    operator.settle()
    operator.wait(60)
    while cluster.run_pods():
        operator.settle()
    status = cluster.status(key)
    assert (status.state, status.restarts) == ("Running", 1)
    assert condition(cluster, key, ConditionType.ACCEPTED).status == "True"
    told = condition(cluster, key, ConditionType.PODS_READY)
    assert told.reason == reason
    assert f"PodGroup {name}: " in told.message


def test_a_gang_that_waits_says_that_its_group_belongs_to_nobody_until_it_is_gone(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job())
    name = lose_the_owner(cluster)
    operator = Operator(cluster, operator.runner, offer=IN_TREE)
    operator.settle()
    assert condition(cluster, key, ConditionType.ACCEPTED).status == "True"
    told = condition(cluster, key, ConditionType.PODS_READY)
    assert told.reason == "NameConflict"
    assert f"podgroup {name} exists and does not belong to this job" in told.message
    del cluster.objects[Kind.IN_TREE_GROUP, "default", name]
    operator.wait(61)
    assert "ownerReferences" in groups(cluster)[name]["metadata"]


def test_a_group_that_is_refused_is_named_and_no_pod_is_created(
    operator: Operator, cluster: FakeCluster
) -> None:
    def refuse(kind: Kind, _body: Raw) -> errors.ApiError | None:
        refused = errors.ForbiddenError("may not create podgroups", status=403)
        return refused if kind is Kind.IN_TREE_GROUP else None

    cluster.refuse = refuse
    key = submitted(operator, a_job())
    assert not cluster.pods()
    ready = condition(cluster, key, ConditionType.PODS_READY)
    assert ready.reason == "Refused"
    assert ready.message.startswith("PodGroup mnist-")
    assert "may not create podgroups" in ready.message

    cluster.refuse = lambda _kind, _body: None
    operator.wait(16)
    assert len(cluster.pods()) == 3


@pytest.mark.parametrize(
    ("offer", "said"),
    [
        pytest.param(Offer(), "does not serve podgroups.v1beta1.scheduling.volcano.sh", id="none"),
        pytest.param(
            Offer(forbidden=frozenset({Gang.VOLCANO})),
            "set scheduling.volcano=true in its chart",
            id="no permission",
        ),
    ],
)
def test_a_scheduler_that_is_missing_is_named_and_nothing_is_created(
    operator: Operator, cluster: FakeCluster, offer: Offer, said: str
) -> None:
    operator.offer = offer
    key = submitted(operator, a_job().with_spec(scheduling={"gang": "Volcano"}))
    assert not cluster.pods()
    accepted = condition(cluster, key, ConditionType.ACCEPTED)
    assert (accepted.status, accepted.reason) == ("False", "SchedulerUnavailable")
    assert said in accepted.message
    assert cluster.status(key).state == "SchedulerUnavailable"

    operator.offer = Offer({Gang.VOLCANO: "v1beta1"})
    operator.wait(31)
    assert len(cluster.pods()) == 3
    assert condition(cluster, key, ConditionType.ACCEPTED).status == "True"


def test_a_chief_of_any_image_waits_with_its_gang_after_a_suspension(
    operator: Operator, cluster: FakeCluster
) -> None:
    # Without reports, a later chief is created only when its servers are ready, but these get no
    # node before the gang is whole.
    key = placed(operator, a_job())
    suspended(operator, key, value=True)
    while cluster.run_pods():
        operator.settle()
    suspended(operator, key, value=False)
    assert cluster.status(key).attempt == 1
    assert "mnist-chief-0" in cluster.pods()


def test_training_begins_without_the_workers_for_whom_there_is_no_node(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job().with_role("worker", replicas=2, minReplicas=1))
    not_connected(operator)
    cluster.act("mnist-worker-1", lambda pod: pod.unschedulable(NO_ROOM))
    operator.wait(29)
    assert cluster.status(key).excluded_workers == []
    operator.wait(2)
    assert cluster.status(key).excluded_workers == [1]
    assert cluster.status(key).restarts == 0


def test_a_worker_that_only_starts_slowly_is_waited_for(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = submitted(operator, a_job().with_role("worker", replicas=2, minReplicas=1))
    not_connected(operator)
    cluster.act("mnist-worker-1", lambda pod: pod.running(ready=False))
    operator.wait(300)
    assert cluster.status(key).excluded_workers == []


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("v1beta1", {"priorityClassName": "high"}, id="Kubernetes 1.37"),
        pytest.param("v1alpha2", {}, id="Kubernetes 1.36, whose groups have no priority"),
    ],
)
def test_a_group_of_kubernetes_own_has_the_priority_of_its_pods(
    operator: Operator, cluster: FakeCluster, version: str, expected: dict[str, Any]
) -> None:
    operator.offer = Offer({Gang.IN_TREE: version})
    job = a_job()
    job.raw["spec"]["template"]["spec"]["priorityClassName"] = "high"
    submitted(operator, job)
    group = groups(cluster)[the_group(cluster)]
    assert group["apiVersion"] == f"scheduling.k8s.io/{version}"
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 3}}, **expected}


@pytest.mark.parametrize(
    ("gang", "expected"),
    [
        pytest.param(
            Gang.POD_GROUP,
            {"minMember": 3, "minResources": {"cpu": "1500m", "memory": "3221225472"}},
            id="coscheduling",
        ),
        pytest.param(
            Gang.VOLCANO,
            {
                "minMember": 3,
                "minResources": {"cpu": "1500m", "memory": "3221225472"},
                "queue": "default",
                "priorityClassName": "high",
            },
            id="Volcano",
        ),
    ],
)
def test_the_group_of(
    operator: Operator, cluster: FakeCluster, gang: Gang, expected: dict[str, Any]
) -> None:
    operator.offer = Offer({gang: "v1"})
    job = a_job().with_spec(scheduling={"gang": str(gang), "priorityClassName": "high"})
    job.with_container(resources={"requests": {"cpu": "500m", "memory": "1Gi"}})
    submitted(operator, job)
    (group,) = groups(cluster, gang).values()
    assert group["spec"] == expected


@pytest.mark.parametrize("gang", [Gang.IN_TREE, Gang.POD_GROUP, Gang.VOLCANO])
def test_a_job_whose_status_is_lost_keeps_its_pods(
    operator: Operator, cluster: FakeCluster, gang: Gang
) -> None:
    operator.offer = Offer({gang: "v1"})
    job = a_job().with_role("worker", replicas=2, minReplicas=1)
    key = placed(operator, job.with_spec(scheduling={"gang": gang.value}))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    at_rest(operator)
    assert cluster.status(key).state == "Running"
    before = {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()}
    known = set(groups(cluster, gang))

    cluster.change(Kind.JOB, cluster.job(key), lambda raw: raw.pop("status"))
    operator.wait(120)
    assert {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()} == before
    assert set(groups(cluster, gang)) == known
    assert cluster.status(key).state == "Running"


def test_pods_that_lost_their_group_are_made_again(
    operator: Operator, cluster: FakeCluster
) -> None:
    submitted(operator, a_job())
    pod = cluster.pods()["mnist-worker-0"]
    before = pod["metadata"]["uid"]
    cluster.change(
        Kind.POD,
        pod,
        lambda raw: PodBuilder(raw).raw["metadata"]["annotations"].pop("tftraining.dev/gang"),
    )
    operator.settle()
    assert cluster.pods()["mnist-worker-0"]["metadata"]["uid"] != before


def test_a_gang_of_one_pod_is_told_in_the_singular(
    operator: Operator, cluster: FakeCluster
) -> None:
    job = a_job().mirrored().with_spec(scheduling={"gang": "InTree"})
    key = submitted(operator, job)
    no_room(operator)
    message = cluster.status(key).message or ""
    assert message.endswith(f" for a node for its pod: {ASK_FOR_LESS}")
    cluster.clock.tick(60)
    cluster.run_pods()
    operator.settle()
    assert any(
        reason == "GangScheduled" and note.startswith("its pod has a node, after waiting for ")
        for reason, note in events(cluster)
    )
