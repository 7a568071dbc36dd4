"""The NetworkPolicy of a job in whole passes: before its pods, repaired, and without permission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.core.conditions import find, is_true
from tftraining_operator.core.networking import Networking
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind

from tests.unit.builders import JobBuilder, PodBuilder, Raw, a_job
from tests.unit.fakes import FakeCluster, Operator, at_rest, wait

if TYPE_CHECKING:
    import asyncio

    from tftraining_operator.api.status import Condition

NAME = "mnist-isolation"
OPERATOR: Raw = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tftraining-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "tftraining-operator"}},
}
OPEN = Networking(default=NetworkPolicy.OPEN)
NO_PERMISSION = Networking(problem="the operator has no permission for NetworkPolicies")


@pytest.fixture
def operator(cluster: FakeCluster, runner: asyncio.Runner) -> Operator:
    return Operator(cluster, runner, networking=Networking(readers=(OPERATOR,)))


def running(operator: Operator, job: JobBuilder | None = None) -> JobKey:
    key = operator.cluster.submit((job or a_job()).raw)
    at_rest(operator)
    return key


def asking(policy: str) -> JobBuilder:
    return a_job().with_spec(network={"policy": policy})


def the_policy(cluster: FakeCluster) -> Raw:
    return cluster.objects[Kind.NETWORK_POLICY, "default", NAME]


def has_policy(cluster: FakeCluster) -> bool:
    return (Kind.NETWORK_POLICY, "default", NAME) in cluster.objects


def isolated(cluster: FakeCluster, key: JobKey) -> Condition | None:
    return find(cluster.status(key).conditions, ConditionType.ISOLATED)


def refuse_policies(cluster: FakeCluster) -> None:
    cluster.refuse = lambda kind, _body: (
        errors.ForbiddenError("denied by the platform team", status=403)
        if kind is Kind.NETWORK_POLICY
        else None
    )


def test_it_is_made_while_the_template_is_tried(operator: Operator, cluster: FakeCluster) -> None:
    cluster.failing["dry_run"] = [errors.TransientError("busy", status=500)] * 2
    key = cluster.submit(a_job().raw)
    operator.see()
    with pytest.raises(errors.TransientError):
        operator.one_pass(key)
    assert has_policy(cluster)
    assert cluster.pods() == {}


def test_only_the_jobs_pods_and_the_operator_get_in(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator)
    found = the_policy(cluster)
    uid = cluster.job(key)["metadata"]["uid"]
    own = {"matchLabels": {keys.LABEL_JOB_UID: uid}}
    assert found["spec"] == {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [{"podSelector": own}]},
            {"from": [OPERATOR], "ports": [{"protocol": "TCP", "port": 8080}]},
        ],
    }
    pods = cluster.pods().values()
    assert all(raw["metadata"]["labels"][keys.LABEL_JOB_UID] == uid for raw in pods)
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (uid, True)
    assert isolated(cluster, key) is None, "a condition appears when it has something to say"


def test_it_is_made_before_the_first_pod(operator: Operator, cluster: FakeCluster) -> None:
    running(operator)
    made = [kind for what, kind, _ in cluster.watch if what == "ADDED"]
    assert made.index(Kind.NETWORK_POLICY) < made.index(Kind.POD)


@pytest.mark.parametrize("by", ["the job", "the operator"])
def test_an_open_job_has_none(operator: Operator, cluster: FakeCluster, by: str) -> None:
    operator.networking = OPEN if by == "the operator" else operator.networking
    key = running(operator, asking("Open") if by == "the job" else a_job())
    assert not has_policy(cluster)
    assert isolated(cluster, key) is None


def test_a_job_that_asks_for_it_has_it_whatever_the_default(
    operator: Operator, cluster: FakeCluster
) -> None:
    operator.networking = OPEN
    running(operator, asking("Isolated"))
    assert the_policy(cluster)["spec"]["ingress"][1] == {
        "ports": [{"protocol": "TCP", "port": 8080}]
    }, "who asks for progress is not known"


def test_a_running_job_is_opened_and_isolated_without_touching_a_pod(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator)
    for policy, wanted in (("Open", False), ("Isolated", True), ("Open", False)):
        cluster.edit(key, lambda spec, given=policy: spec.update(network={"policy": given}))
        at_rest(operator)
        assert has_policy(cluster) is wanted
    assert set(cluster.made.values()) == {1}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda raw: raw["spec"].update(ingress=[{}]), id="all may connect"),
        pytest.param(
            lambda raw: raw["spec"].update(podSelector={"matchLabels": {"a": "b"}}), id="no pod"
        ),
        pytest.param(lambda raw: raw["spec"].update(policyTypes=["Egress"]), id="egress"),
        pytest.param(
            lambda raw: raw["metadata"]["labels"].pop(keys.LABEL_JOB_UID), id="a label is gone"
        ),
    ],
)
def test_one_that_somebody_edits_is_corrected_in_place(
    operator: Operator, cluster: FakeCluster, change: Any
) -> None:
    key = running(operator)
    before = the_policy(cluster)
    wanted = {**before["spec"]}
    cluster.change(Kind.NETWORK_POLICY, before, change)
    at_rest(operator)
    found = the_policy(cluster)
    assert found["spec"] == wanted
    assert found["metadata"]["labels"][keys.LABEL_JOB_UID] == cluster.job(key)["metadata"]["uid"]
    assert found["metadata"]["uid"] == before["metadata"]["uid"], "there was no moment without it"
    assert cluster.calls["replace"] == 1


def test_one_that_somebody_deletes_is_made_again(operator: Operator, cluster: FakeCluster) -> None:
    running(operator)
    cluster._drop(Kind.NETWORK_POLICY, the_policy(cluster))
    at_rest(operator)
    assert has_policy(cluster)
    assert set(cluster.made.values()) == {1}


def test_a_job_of_the_version_before_gets_it_and_keeps_its_pods(
    operator: Operator, cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    operator.networking = OPEN
    running(operator)
    upgraded = Operator(cluster, runner, networking=Networking(readers=(OPERATOR,)))
    at_rest(upgraded)
    assert has_policy(cluster)
    assert set(cluster.made.values()) == {1}


def test_that_of_a_finished_job_goes_with_the_job(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator)
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    at_rest(operator)
    assert set(cluster.pods()) == {"mnist-chief-0"}
    assert has_policy(cluster)
    cluster.remove_job(key)
    at_rest(operator)
    assert not has_policy(cluster)


def test_pods_that_are_kept_running_keep_it(operator: Operator, cluster: FakeCluster) -> None:
    running(operator, a_job().with_policy(cleanPodPolicy="None"))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    at_rest(operator)
    assert has_policy(cluster)


def test_a_suspended_job_needs_none_before_it_has_pods(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, a_job().with_policy(suspend=True))
    assert not has_policy(cluster)
    cluster.resume(key)
    at_rest(operator)
    assert has_policy(cluster)


@pytest.mark.parametrize("missing", ["permission", "consent of an admission policy"])
def test_a_job_that_does_not_ask_for_it_trains_without_and_says_so(
    operator: Operator, cluster: FakeCluster, missing: str
) -> None:
    if missing == "permission":
        operator.networking = NO_PERMISSION
    else:
        refuse_policies(cluster)
    key = running(operator)
    assert cluster.status(key).state == "Running"
    found = isolated(cluster, key)
    assert found is not None
    assert (found.status, found.reason) == ("False", "Refused")
    why = "has no permission" if missing == "permission" else "denied by the platform team"
    assert "any pod can connect to them" in found.message
    assert why in found.message
    operator.wait(300)
    assert [event["reason"] for event in cluster.events].count("Refused") == 1

    operator.networking = Networking(readers=(OPERATOR,))
    cluster.refuse = lambda _kind, _body: None
    operator.look(key)
    operator.wait(61)
    found = isolated(cluster, key)
    assert found is not None
    assert (found.status, found.reason) == ("True", "Isolated")
    assert has_policy(cluster)
    assert set(cluster.made.values()) == {1}


@pytest.mark.parametrize("code", [0, 64], ids=["succeeded", "failed"])
def test_a_job_that_has_ended_is_not_said_to_lack_it(
    operator: Operator, cluster: FakeCluster, code: int
) -> None:
    operator.networking = OPEN
    key = running(operator)
    operator.networking = NO_PERMISSION
    cluster.act("mnist-chief-0", lambda pod: pod.exited(code))
    at_rest(operator)
    operator.look(key)
    operator.wait(300)
    assert is_true(cluster.status(key), ConditionType.FINISHED)
    assert isolated(cluster, key) is None
    assert "Refused" not in [event["reason"] for event in cluster.events]


@pytest.mark.parametrize("missing", ["permission", "consent of an admission policy"])
def test_a_job_that_asks_for_it_gets_no_pod_without(
    operator: Operator, cluster: FakeCluster, missing: str
) -> None:
    if missing == "permission":
        operator.networking = NO_PERMISSION
    else:
        refuse_policies(cluster)
    key = running(operator, asking("Isolated"))
    operator.wait(100)
    assert cluster.pods() == {}
    status = cluster.status(key)
    assert status.state == "Refused"
    assert f"NetworkPolicy {NAME}: " in (status.message or "")
    operator.networking = Networking(readers=(OPERATOR,))
    cluster.refuse = lambda _kind, _body: None
    operator.look(key)
    operator.wait(61)
    at_rest(operator)
    assert cluster.status(key).state == "Running"


def test_a_pod_that_is_lost_while_it_cannot_be_corrected_waits(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator, asking("Isolated"))
    refuse_policies(cluster)
    cluster.change(Kind.NETWORK_POLICY, the_policy(cluster), lambda raw: raw.update(spec={}))
    at_rest(operator)
    cluster.collect("mnist-worker-0")
    operator.wait(10)
    assert "mnist-worker-0" not in cluster.pods()
    cluster.refuse = lambda _kind, _body: None
    operator.wait(61)
    assert "mnist-worker-0" in cluster.pods()
    assert cluster.status(key).restarts == 0


def test_a_strangers_object_of_its_name_is_left_alone(
    operator: Operator, cluster: FakeCluster
) -> None:
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"podSelector": {}},
    }
    cluster._create(Kind.NETWORK_POLICY, body, dry_run=False)
    key = running(operator)
    assert cluster.status(key).state == "Running"
    found = isolated(cluster, key)
    assert found is not None
    assert found.reason == "NameConflict"
    assert the_policy(cluster)["spec"] == {"podSelector": {}}


def test_one_that_lost_its_label_is_repaired_though_no_watch_tells_of_it(
    operator: Operator, cluster: FakeCluster
) -> None:
    running(operator)
    raw = the_policy(cluster)
    gone = {**raw, "metadata": {**raw["metadata"]}}
    raw["metadata"]["labels"] = {}
    raw["spec"]["ingress"] = [{}]
    cluster._number(raw)
    gone["metadata"]["resourceVersion"] = raw["metadata"]["resourceVersion"]
    cluster.watch.append(("DELETED", Kind.NETWORK_POLICY, gone))
    operator.wait(1)
    found = the_policy(cluster)
    assert found["metadata"]["labels"][keys.LABEL_JOB] == "mnist"
    assert len(found["spec"]["ingress"]) == 2


def test_a_job_that_is_made_again_waits_until_the_old_one_is_collected(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator)
    raw = cluster.job(key)
    old = the_policy(cluster)["metadata"]["uid"]
    cluster.remove_job(key)
    cluster.submit({k: v for k, v in raw.items() if k != "status"})
    operator.settle()
    assert the_policy(cluster)["metadata"]["uid"] == old
    assert set(cluster.made.values()) == {1}
    at_rest(operator)
    assert the_policy(cluster)["metadata"]["uid"] != old
    assert cluster.status(key).state == "Running"
    added = [(kind, raw["metadata"]["uid"]) for what, kind, raw in cluster.watch if what == "ADDED"]
    made = added.index((Kind.NETWORK_POLICY, the_policy(cluster)["metadata"]["uid"]))
    assert all(
        made < added.index((Kind.POD, pod["metadata"]["uid"])) for pod in cluster.pods().values()
    )


def test_a_stale_store_overwrites_nothing(operator: Operator, cluster: FakeCluster) -> None:
    key = running(operator)
    cluster.change(
        Kind.NETWORK_POLICY, the_policy(cluster), lambda raw: raw["spec"].update(ingress=[])
    )
    operator.see()
    cluster.change(
        Kind.NETWORK_POLICY, the_policy(cluster), lambda raw: raw["spec"].update(egress=[])
    )
    with pytest.raises(errors.ConflictError):
        operator.one_pass(key)
    at_rest(operator)
    assert the_policy(cluster)["spec"]["policyTypes"] == ["Ingress"]
    assert "egress" not in the_policy(cluster)["spec"]


def test_two_releases_that_read_from_elsewhere_do_not_fight(
    operator: Operator, cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    running(operator)
    other = Operator(cluster, runner, networking=Networking(readers=({"podSelector": {}},)))
    wait([operator, other], 60)
    assert 2 <= cluster.calls["replace"] <= 14
    assert set(cluster.made.values()) == {1}


def test_a_second_edit_is_undone_as_well(operator: Operator, cluster: FakeCluster) -> None:
    running(operator)
    for _ in range(2):
        edited = the_policy(cluster)
        cluster.change(Kind.NETWORK_POLICY, edited, lambda raw: raw["spec"].update(ingress=[{}]))
        operator.settle()
    operator.wait(11)
    assert len(the_policy(cluster)["spec"]["ingress"]) == 2


def test_one_that_may_not_be_deleted_stops_nothing(
    operator: Operator, cluster: FakeCluster
) -> None:
    key = running(operator)
    cluster.failing["delete"] = [errors.ForbiddenError("denied", status=403)]
    cluster.edit(key, lambda spec: spec.update(network={"policy": "Open"}))
    cluster.edit(key, lambda spec: spec["worker"].update(replicas=2))
    operator.settle()
    assert "mnist-worker-1" in cluster.pods()


def test_the_evaluator_is_inside(operator: Operator, cluster: FakeCluster) -> None:
    running(operator, a_job().with_evaluator())
    selector = the_policy(cluster)["spec"]["podSelector"]["matchLabels"]
    labels = cluster.pods()["mnist-evaluator-0"]["metadata"]["labels"]
    assert selector.items() <= labels.items()


def test_refusals_of_pods_do_not_hide_it(operator: Operator, cluster: FakeCluster) -> None:
    cluster.refuse = lambda kind, _body: (
        errors.ForbiddenError("exceeded quota", status=403) if kind is Kind.POD else None
    )
    key = running(operator)
    assert has_policy(cluster)
    assert isolated(cluster, key) is None
    cluster.refuse = lambda _kind, _body: None
    operator.wait(16)
    cluster.act("mnist-worker-0", PodBuilder.running)
