"""What keeps pods from being evicted: the budget of a job in whole passes, and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.disruption import DisruptionBudget
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.core import desired
from tftraining_operator.core.budgeting import Budgeting
from tftraining_operator.core.conditions import find
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind

from tests.unit.builders import IMAGE, JobBuilder, Raw, a_job
from tests.unit.fakes import FakeCluster, Operator, at_rest, wait

if TYPE_CHECKING:
    import asyncio

    from tftraining_operator.api.status import Condition

NAME = "mnist-budget"
BY_DEFAULT = Budgeting(default=DisruptionBudget.ESSENTIAL)
NO_PERMISSION = Budgeting(problem="the operator has no permission for poddisruptionbudgets")
SAFE, COST = keys.ANNOTATION_SAFE_TO_EVICT, keys.ANNOTATION_DELETION_COST


@pytest.fixture
def operator(cluster: FakeCluster, runner: asyncio.Runner) -> Operator:
    return Operator(cluster, runner)


def protected(job: JobBuilder | None = None) -> JobBuilder:
    return (job or a_job()).with_spec(disruption={"budget": "Essential"})


def running(operator: Operator, job: JobBuilder) -> JobKey:
    key = operator.cluster.submit(job.raw)
    at_rest(operator)
    return key


def the_budget(cluster: FakeCluster) -> Raw:
    return cluster.objects[Kind.DISRUPTION_BUDGET, "default", NAME]


def has_budget(cluster: FakeCluster) -> bool:
    return (Kind.DISRUPTION_BUDGET, "default", NAME) in cluster.objects


def protection(cluster: FakeCluster, key: JobKey) -> Condition | None:
    return find(cluster.status(key).conditions, ConditionType.PROTECTED)


def refuse_budgets(cluster: FakeCluster, error: errors.ApiError) -> None:
    cluster.refuse = lambda kind, _body: error if kind is Kind.DISRUPTION_BUDGET else None


def forbidden() -> errors.ApiError:
    return errors.ForbiddenError("exceeded quota: count/poddisruptionbudgets.policy=0", status=403)


def selected(cluster: FakeCluster) -> set[str]:
    """Return the names of the pods that the budget selects, as Kubernetes would."""
    selector = the_budget(cluster)["spec"]["selector"]
    (expression,) = selector["matchExpressions"]
    assert expression["operator"] == "In"
    return {
        name
        for name, raw in cluster.pods().items()
        if selector["matchLabels"].items() <= raw["metadata"]["labels"].items()
        and raw["metadata"]["labels"][expression["key"]] in expression["values"]
    }


@pytest.mark.parametrize(
    ("job", "essential"),
    [
        pytest.param(
            a_job().with_workers(2).with_role("ps", replicas=2).with_evaluator(),
            {"mnist-chief-0", "mnist-ps-0", "mnist-ps-1"},
            id="a lost worker costs nothing but speed",
        ),
        pytest.param(
            a_job().mirrored(workers=2).with_evaluator(),
            {"mnist-chief-0", "mnist-worker-0", "mnist-worker-1"},
            id="all members restart when one is lost",
        ),
        pytest.param(
            a_job().mirrored().with_evaluator(), {"mnist-chief-0"}, id="the chief trains alone"
        ),
    ],
)
def test_the_pods_whose_loss_interrupts_training_cannot_be_evicted(
    operator: Operator, cluster: FakeCluster, job: JobBuilder, essential: set[str]
) -> None:
    key = running(operator, protected(job))
    found = the_budget(cluster)
    assert selected(cluster) == essential
    assert found["spec"]["minAvailable"] == len(essential)
    assert found["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (cluster.job(key)["metadata"]["uid"], True)
    assert protection(cluster, key) is None, "a condition appears when it has something to say"


def test_a_job_has_none_unless_it_or_the_operator_says_so(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    assert not has_budget(cluster)
    assert protection(cluster, key) is None
    operator.budgeting = BY_DEFAULT
    operator.look(key)
    at_rest(operator)
    assert has_budget(cluster)
    assert set(cluster.made.values()) == {1}


def test_a_job_that_may_be_evicted_has_none_whatever_the_default(
    operator: Operator, cluster: FakeCluster
) -> None:
    operator.budgeting = BY_DEFAULT
    running(operator, a_job().with_spec(disruption={"budget": "None"}))
    assert not has_budget(cluster)


def test_a_running_job_is_protected_and_not_without_touching_a_pod(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    for budget, wanted in (("Essential", True), ("None", False), ("Essential", True)):
        cluster.edit(key, lambda spec, given=budget: spec.update(disruption={"budget": given}))
        at_rest(operator)
        assert has_budget(cluster) is wanted
    assert set(cluster.made.values()) == {1}


def test_it_grows_with_the_members_of_a_mirrored_job(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, protected(a_job().mirrored(workers=1)))
    uid = the_budget(cluster)["metadata"]["uid"]
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=3))
    at_rest(operator)
    assert the_budget(cluster)["spec"]["minAvailable"] == 4
    assert the_budget(cluster)["metadata"]["uid"] == uid
    assert cluster.calls["replace"] == 1


def test_pods_are_created_first(operator: Operator, cluster: FakeCluster) -> None:
    running(operator, protected())
    made = [kind for what, kind, _ in cluster.watch if what == "ADDED"]
    assert made.index(Kind.POD) < made.index(Kind.DISRUPTION_BUDGET)


def test_a_suspended_job_keeps_it_until_the_chief_has_saved_and_all_have_ended(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, protected())
    cluster.suspend(key)
    operator.settle()
    assert "deletionTimestamp" not in cluster.pods()["mnist-ps-0"]["metadata"]
    assert has_budget(cluster), "the chief saves to its ps"
    at_rest(operator)
    assert not cluster.pods()
    assert not has_budget(cluster)
    cluster.resume(key)
    at_rest(operator)
    assert has_budget(cluster)


def test_a_job_whose_chief_has_succeeded_has_none_once_its_servers_have_ended(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, protected(a_job().with_evaluator()))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    at_rest(operator)
    assert cluster.pods()["mnist-evaluator-0"]["status"]["phase"] == "Running"
    assert not has_budget(cluster)


def test_a_failed_job_has_none(operator: Operator, cluster: FakeCluster) -> None:
    running(operator, protected())
    cluster.act("mnist-chief-0", lambda pod: pod.exited(64))
    at_rest(operator)
    assert "mnist-chief-0" in cluster.pods()
    assert not has_budget(cluster)


def test_it_stays_while_the_chief_restarts(operator: Operator, cluster: FakeCluster) -> None:
    running(operator, protected())
    uid = the_budget(cluster)["metadata"]["uid"]
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    at_rest(operator)
    assert cluster.made["mnist-chief-0"] == 2
    assert the_budget(cluster)["metadata"]["uid"] == uid


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda raw: raw["spec"].update(minAvailable=0), id="all may be evicted"),
        pytest.param(lambda raw: raw["spec"].update(selector={}), id="no pod is selected"),
        pytest.param(
            lambda raw: raw["metadata"]["labels"].pop(keys.LABEL_JOB_UID), id="a label is gone"
        ),
    ],
)
def test_one_that_somebody_edits_is_corrected_in_place(
    operator: Operator, cluster: FakeCluster, change: Any
) -> None:
    running(operator, protected())
    before = the_budget(cluster)
    uid, wanted = before["metadata"]["uid"], dict(before["spec"])
    cluster.change(Kind.DISRUPTION_BUDGET, before, change)
    at_rest(operator)
    found = the_budget(cluster)
    assert (found["metadata"]["uid"], found["spec"]) == (uid, wanted)
    assert keys.LABEL_JOB_UID in found["metadata"]["labels"]


def test_what_its_controller_writes_into_it_is_left_alone(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator, protected())
    status = {"currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0}
    raw, writes = the_budget(cluster), cluster.writes
    cluster.change(Kind.DISRUPTION_BUDGET, raw, lambda body: body.update(status=status))
    at_rest(operator)
    assert cluster.writes == writes
    assert the_budget(cluster)["status"] == status


def test_one_that_somebody_deletes_is_made_again(operator: Operator, cluster: FakeCluster) -> None:
    running(operator, protected())
    cluster._drop(Kind.DISRUPTION_BUDGET, the_budget(cluster))
    at_rest(operator)
    assert has_budget(cluster)
    assert set(cluster.made.values()) == {1}


@pytest.mark.parametrize("missing", ["permission", "quota"])
def test_a_job_trains_without_it_and_says_so_once(
    operator: Operator, cluster: FakeCluster, missing: str
) -> None:
    if missing == "permission":
        operator.budgeting = NO_PERMISSION
    else:
        refuse_budgets(cluster, forbidden())
    key = running(operator, protected())
    assert cluster.status(key).state == "Running"
    found = protection(cluster, key)
    assert found is not None
    assert (found.status, found.reason) == ("False", "Refused")
    assert "every pod can be evicted" in found.message
    assert ("no permission" if missing == "permission" else "exceeded quota") in found.message
    operator.wait(300)
    assert [event["reason"] for event in cluster.events].count("Refused") == 1

    operator.budgeting = Budgeting()
    cluster.refuse = lambda _kind, _body: None
    operator.look(key)
    operator.wait(61)
    found = protection(cluster, key)
    assert found is not None
    assert (found.status, found.reason) == ("True", "Protected")
    assert has_budget(cluster)
    assert set(cluster.made.values()) == {1}

    cluster.edit(key, lambda spec: spec.update(disruption={"budget": "None"}))
    at_rest(operator)
    found = protection(cluster, key)
    assert found is not None
    assert (found.status, found.reason) == ("False", "Unprotected")
    assert [event["reason"] for event in cluster.events].count("Unprotected") == 0


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.TransientError("failed calling webhook", status=500), id="webhook"),
        pytest.param(errors.NotFoundError("no such resource", status=404), id="no such API"),
    ],
)
def test_a_server_that_fails_to_write_it_does_not_keep_the_status_from_being_written(
    operator: Operator, cluster: FakeCluster, error: errors.ApiError
) -> None:
    refuse_budgets(cluster, error)
    key = running(operator, protected())
    assert cluster.status(key).state == "Running"
    creations = cluster.calls["create"]
    for _ in range(30):
        operator.look(key)
        operator.wait(1)
    assert cluster.calls["create"] - creations <= 2, "it is not tried in each pass"
    cluster.refuse = lambda _kind, _body: None
    operator.wait(61)
    assert has_budget(cluster)


def test_a_failed_deletion_is_tried_again(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, protected())
    cluster.edit(key, lambda spec: spec.update(disruption={"budget": "None"}))
    cluster.failing["delete"] = [errors.ForbiddenError("denied", status=403)] * 100
    deletions = cluster.calls["delete"]
    operator.settle()
    assert has_budget(cluster)
    assert cluster.calls["delete"] - deletions <= 3, "there is no hot loop"
    cluster.failing["delete"] = []
    operator.wait(61)
    assert not has_budget(cluster)
    assert cluster.status(key).state == "Running"


def test_a_job_that_had_ended_before_does_not_miss_it(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job())
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    at_rest(operator)
    operator.budgeting = Budgeting(DisruptionBudget.ESSENTIAL, NO_PERMISSION.problem)
    operator.look(key)
    at_rest(operator)
    assert protection(cluster, key) is None


def test_a_strangers_object_of_its_name_is_left_alone(
    operator: Operator, cluster: FakeCluster
) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"minAvailable": 1},
    }
    cluster._create(Kind.DISRUPTION_BUDGET, body, dry_run=False)
    key = running(operator, protected())
    assert cluster.status(key).state == "Running"
    found = protection(cluster, key)
    assert found is not None
    assert found.reason == "NameConflict"
    assert the_budget(cluster)["spec"] == {"minAvailable": 1}


def test_a_job_that_is_made_again_gets_its_own(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator, protected())
    raw = cluster.job(key)
    old = the_budget(cluster)["metadata"]["uid"]
    cluster.remove_job(key)
    cluster.submit({k: v for k, v in raw.items() if k != "status"})
    operator.settle()
    assert the_budget(cluster)["metadata"]["uid"] == old
    at_rest(operator)
    assert the_budget(cluster)["metadata"]["uid"] != old
    assert selected(cluster) == {"mnist-chief-0", "mnist-ps-0"}


def test_two_operators_with_different_defaults_do_not_write_without_end(
    operator: Operator, cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    running(operator, protected(a_job().mirrored(workers=1)))
    other = Operator(cluster, runner)
    raw = the_budget(cluster)
    cluster.change(Kind.DISRUPTION_BUDGET, raw, lambda body: body["spec"].update(minAvailable=9))
    wait([operator, other], 60)
    assert the_budget(cluster)["spec"]["minAvailable"] == 2
    assert cluster.calls["replace"] <= 2


@pytest.mark.parametrize(
    ("job", "role", "annotations"),
    [
        pytest.param(a_job(), Role.CHIEF, ("false", "2147483647"), id="chief"),
        pytest.param(a_job(), Role.PS, ("false", "2147483647"), id="ps"),
        pytest.param(a_job(), Role.WORKER, ("true", None), id="worker"),
        pytest.param(a_job().with_evaluator(), Role.EVALUATOR, (None, None), id="evaluator"),
        pytest.param(
            a_job().mirrored(workers=2), Role.WORKER, ("false", "2147483647"), id="mirrored worker"
        ),
    ],
)
def test_autoscalers_are_told_which_pods_are_dear(
    job: JobBuilder, role: Role, annotations: tuple[str | None, str | None]
) -> None:
    found = desired.pod(job.build(), role, 0, 0, IMAGE)["metadata"]["annotations"]
    assert (found.get(SAFE), found.get(COST)) == annotations


def test_what_a_template_says_to_autoscalers_stands() -> None:
    job = a_job().with_role("chief", template={"metadata": {"annotations": {SAFE: "true"}}})
    annotations = desired.pod(job.build(), Role.CHIEF, 0, 0, IMAGE)["metadata"]["annotations"]
    assert annotations[SAFE] == "true"
    annotations = desired.pod(job.build(), Role.PS, 0, 0, IMAGE)["metadata"]["annotations"]
    assert annotations[SAFE] == "false"
