"""Whole passes over a running job that somebody has damaged, or a newer version has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import find

from tests.unit.builders import a_job, stamp
from tests.unit.fakes import at_rest

if TYPE_CHECKING:
    from tftraining_operator.reconcile.store import JobKey

    from tests.unit.fakes import FakeCluster, Operator

GARBAGE: list[Any] = [
    pytest.param({"startTime": "garbage"}, id="a start that is no time"),
    pytest.param({"startTime": "9999-12-31T23:59:59Z"}, id="a start in year 9999"),
    pytest.param({"restarts": -5, "attempt": "two"}, id="counters"),
    pytest.param(
        {"progress": {"step": 3, "updatedAt": stamp(), "stepsPerSecond": "fast"}}, id="a rate"
    ),
    pytest.param(
        {"lastFailure": {"role": "boss", "index": 0, "pod": "p", "reason": "R", "time": "soon"}},
        id="a failure of no role",
    ),
    pytest.param({"completionTime": "junk"}, id="an end of a job that runs"),
    pytest.param({"conditions": "none", "roles": 7}, id="lists"),
]


@pytest.fixture
def key(cluster: FakeCluster, operator: Operator) -> JobKey:
    """A job that runs."""
    key = cluster.submit(a_job().with_policy(ttlSecondsAfterFinished=30).raw)
    for _ in range(3):
        operator.settle()
        cluster.run_pods()
    operator.settle()
    assert cluster.status(key).state == "Running"
    return key


def repairs(cluster: FakeCluster) -> list[str]:
    return [event["note"] for event in cluster.events if event["reason"] == "StatusRepaired"]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_damaged_status_is_repaired_and_said_once(
    cluster: FakeCluster, operator: Operator, key: JobKey, garbage: dict[str, Any]
) -> None:
    pods = {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()}
    cluster.tamper(key, lambda status: status.update(garbage))
    operator.wait(6)  # writes of progress only are five seconds apart
    said = repairs(cluster)
    assert len(said) >= len(garbage)
    assert all(note.startswith(tuple(f"status.{name}" for name in garbage)) for note in said)
    operator.wait(30)
    assert repairs(cluster) == said
    assert cluster.status(key).state == "Running"
    assert {n: raw["metadata"]["uid"] for n, raw in cluster.pods().items()} == pods


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_worker_that_is_deleted_meanwhile_is_created_again(
    cluster: FakeCluster, operator: Operator, key: JobKey, garbage: dict[str, Any]
) -> None:
    cluster.tamper(key, lambda status: status.update(garbage))
    cluster.collect("mnist-worker-0")
    operator.wait(60)
    assert "mnist-worker-0" in cluster.pods()


@pytest.mark.parametrize("garbage", GARBAGE)
def test_success_is_noticed_and_the_job_expires(
    cluster: FakeCluster, operator: Operator, key: JobKey, garbage: dict[str, Any]
) -> None:
    cluster.tamper(key, lambda status: status.update(garbage))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    operator.settle()
    assert cluster.status(key).state == "Succeeded"
    cluster.tamper(key, lambda status: status.update(completionTime="junk"))
    operator.wait(6)
    assert cluster.status(key).completion_time == stamp()
    operator.wait(31)
    with pytest.raises(Exception, match="not found"):
        cluster.job(key)


def test_a_running_job_that_cannot_be_understood_is_left_alone_and_that_is_said_once(
    cluster: FakeCluster, operator: Operator, key: JobKey
) -> None:
    before = {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()}
    cluster.edit(key, lambda spec: spec.update(strategy="TPU", novelty=1))
    cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
    cluster.collect("mnist-worker-0")
    operator.wait(3600)
    pods = {name: raw["metadata"]["uid"] for name, raw in cluster.pods().items()}
    assert pods == {name: uid for name, uid in before.items() if name != "mnist-worker-0"}
    told = [e for e in cluster.events if "spec.strategy: must be one of" in e["note"]]
    assert len(told) == 1
    assert cluster.status(key).restarts == 0


def test_it_goes_on_when_it_is_understood_again(
    cluster: FakeCluster, operator: Operator, key: JobKey
) -> None:
    cluster.edit(key, lambda spec: spec.update(strategy="TPU"))
    cluster.collect("mnist-worker-0")
    operator.wait(60)
    cluster.edit(key, lambda spec: spec.update(strategy="ParameterServer"))
    operator.wait(60)
    cluster.run_pods()
    operator.wait(60)
    assert "mnist-worker-0" in cluster.pods()
    assert cluster.status(key).state == "Running"
    accepted = find(cluster.status(key).conditions, ConditionType.ACCEPTED)
    assert accepted is not None
    assert accepted.reason == "Valid"


def test_a_job_with_fields_of_a_newer_version_is_run(
    cluster: FakeCluster, operator: Operator, key: JobKey
) -> None:
    before = cluster.pods().keys()
    cluster.edit(key, lambda spec: spec.update(novelty={"a": [1]}))
    operator.wait(60)
    assert cluster.pods().keys() == before
    cluster.collect("mnist-worker-0")
    operator.wait(60)
    assert cluster.pods().keys() == before


def suspended(operator: Operator, key: JobKey, *, value: bool) -> None:
    policy = {"suspend": value}
    operator.cluster.edit(key, lambda spec: spec.setdefault("runPolicy", {}).update(policy))
    at_rest(operator)


def test_a_suspended_job_that_cannot_be_understood_waits_for_who_understands_it(
    cluster: FakeCluster, operator: Operator, key: JobKey
) -> None:
    suspended(operator, key, value=True)
    cluster.edit(key, lambda spec: spec.update(strategy="TPU"))
    operator.wait(3600)
    status = cluster.status(key)
    assert status.state == "Suspended"
    assert "spec.strategy: must be one of" in (status.message or "")
    suspended(operator, key, value=False)
    operator.wait(3600)
    assert cluster.status(key).completion_time is None

    cluster.edit(key, lambda spec: spec.update(strategy="ParameterServer"))
    at_rest(operator)
    assert cluster.status(key).state == "Running"
