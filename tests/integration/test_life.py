"""A job's life, from apply to the end, with pod phases set by the test."""

import json

import pytest

from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

ALL = ("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")
CHECKPOINT = {"persistentVolumeClaim": {"claimName": "mnist"}}
SUSPEND = json.dumps({"spec": {"runPolicy": {"suspend": True}}})
DONE = {
    "version": 1,
    "role": "chief",
    "phase": "done",
    "step": 3000,
    "totalSteps": 3000,
    "stepsPerSecond": 40.2,
    "metrics": {"loss": 0.0891, "accuracy": 0.9731},
    "lastCheckpoint": {"step": 3000, "path": "/c/ckpt-3000", "time": "2026-01-02T03:05:05Z"},
}


def test_a_job_gets_its_pods_its_service_and_its_conditions_at_once(space: Namespace) -> None:
    space.apply(manifest())
    pods = space.wait_for_pods(*ALL)

    assert space.services() == ["mnist"]
    assert space.kubectl("get", "networkpolicies", "-o", "name").split() == [
        "networkpolicy.networking.k8s.io/mnist-isolation"
    ]
    owner = pods["mnist-chief-0"]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == space.job()["metadata"]["uid"]
    assert owner["controller"] is True
    space.wait_for("Accepted")
    types = {c["type"] for c in space.status()["conditions"]}
    assert types == {"Accepted", "PodsReady", "Running", "Finished"}
    assert {c["observedGeneration"] for c in space.status()["conditions"]} == {1}
    assert space.job()["metadata"].get("finalizers") is None
    assert space.job()["metadata"].get("annotations", {}).keys() <= {
        "kubectl.kubernetes.io/last-applied-configuration"
    }


def test_a_protected_job_refuses_the_eviction_of_what_it_cannot_lose(space: Namespace) -> None:
    space.apply(manifest(disruption={"budget": "Essential"}))
    before = space.wait_for_pods(*ALL)
    space.run_all()
    budgets = ("get", "poddisruptionbudgets", "-o", "name")
    eventually(lambda: "mnist-budget" in space.kubectl(*budgets), "the budget is created")

    # No controller writes its status here: what is refused is what it selects.
    for pod in ("mnist-chief-0", "mnist-ps-0"):
        answer = space.evict(pod)
        assert (answer.status, "disruption budget" in answer.message) == (429, True)
    assert space.evict("mnist-worker-1").ok
    old = before["mnist-worker-1"]["metadata"]["uid"]
    eventually(
        lambda: (
            space.pods().get("mnist-worker-1", {"metadata": {"uid": old}})["metadata"]["uid"] != old
        ),
        "the evicted worker is replaced",
    )
    space.run("mnist-chief-0", ready=False)
    assert space.evict("mnist-chief-0").ok, "a pod that is not ready is not protected"

    space.kubectl("patch", "tftj", "mnist", "--type=merge", "-p", SUSPEND)
    eventually(lambda: "mnist-budget" not in space.kubectl(*budgets), "the budget goes as well")


def test_a_job_that_trains_to_its_end_succeeds_and_is_cleaned_up(space: Namespace) -> None:
    space.apply(manifest())
    space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")
    assert space.condition("PodsReady")["message"] == "4 of 4 pods are ready"

    space.end("mnist-chief-0", 0, json.dumps(DONE))
    space.kubectl("wait", "--for=condition=Finished", "tftj/mnist", "--timeout=15s")

    space.wait_for_pods("mnist-chief-0")  # its log stays; the servers go
    assert space.services() == ["mnist"], "it goes with the job"
    status = space.status()
    assert status["state"] == "Succeeded"
    assert status["progress"]["percent"] == 100
    assert status["lastCheckpoint"]["step"] == 3000
    assert space.condition("Failed") == {}
    columns = space.kubectl("get", "tftj", "mnist").splitlines()[1].split()
    assert columns[:6] == ["mnist", "Succeeded", "2/2", "1/1", "100%", "0"]


def test_describe_lists_the_events_of_a_job_in_order(space: Namespace) -> None:
    space.apply(manifest())
    space.wait_for_pods(*ALL)
    space.run(*(name for name in ALL if "-chief-" not in name))
    roles = lambda: space.status().get("roles", [])  # noqa: E731
    eventually(lambda: sum(role["ready"] for role in roles()) == len(ALL) - 1, "the servers")
    space.run_all()
    space.wait_for("Running")
    space.end("mnist-chief-0", 0, json.dumps(DONE))
    space.wait_for("Finished")
    eventually(lambda: "Succeeded" in dict(space.events()), "the last event")

    reasons = [reason for reason, _ in space.events()]
    assert reasons == ["Created", "Running", "Succeeded"]
    notes = dict(space.events())
    assert notes["Created"] == "created 4 pods and the service"
    assert "4 of 4 pods are ready" in notes["Running"]
    assert "3000 steps" in notes["Succeeded"]
    assert "created 4 pods" in space.kubectl("describe", "tftj", "mnist")


def test_the_evaluator_gets_its_grace_while_the_servers_go(space: Namespace) -> None:
    space.apply(manifest(evaluator={}, checkpoint=CHECKPOINT))
    space.wait_for_pods(*ALL, "mnist-evaluator-0")
    space.run_all()
    space.wait_for("Running")
    space.end("mnist-chief-0", 0, json.dumps(DONE))

    space.wait_for_pods("mnist-chief-0", "mnist-evaluator-0")
    assert space.status()["state"] == "Evaluating"
    assert space.condition("Finished")["status"] == "False"

    last = {**DONE, "role": "evaluator", "metrics": {"accuracy": 0.9642, "loss": 0.12}}
    space.end("mnist-evaluator-0", 0, json.dumps(last))
    space.wait_for("Succeeded")
    evaluation = space.status()["evaluation"]
    assert evaluation["final"] is True
    assert {"name": "accuracy", "value": "0.9642"} in evaluation["metrics"]


def test_an_evaluator_that_does_not_finish_is_told_of(space: Namespace) -> None:
    space.apply(
        manifest(evaluator={}, checkpoint=CHECKPOINT, runPolicy={"evaluatorGraceSeconds": 1})
    )
    space.wait_for_pods(*ALL, "mnist-evaluator-0")
    space.run_all()
    space.wait_for("Running")
    space.end("mnist-chief-0", 0, json.dumps(DONE))

    succeeded = space.wait_for("Succeeded")
    assert succeeded["reason"] == "NotEvaluated"
    assert "did not finish within 1 s" in succeeded["message"]


def test_a_failed_chief_is_recreated_until_the_backoff_limit(
    space: Namespace, operator: Operator
) -> None:
    created = operator.metric(
        "tftraining_operator_api_requests_total", verb="create", resource="pods", code="201"
    )
    space.apply(manifest(runPolicy={"backoffLimit": 1}))
    space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")
    here = {"namespace": space.name, "state": "Running"}
    eventually(lambda: operator.metric("tftraining_jobs", **here) == 1, "a running job")
    first = space.pods()["mnist-chief-0"]["metadata"]["uid"]

    space.end("mnist-chief-0", 75, "a parameter server was lost")
    eventually(
        lambda: (
            space.pods().get("mnist-chief-0", {"metadata": {"uid": first}})["metadata"]["uid"]
            != first
        ),
        "a new chief",
    )
    assert space.pods()["mnist-chief-0"]["metadata"]["labels"]["tftraining.dev/attempt"] == "1"
    assert space.status()["restarts"] == 1
    restarting = space.wait_for("Restarting")
    assert restarting["reason"] == "ParameterServerLost"
    failure = space.status()["lastFailure"]
    assert (failure["role"], failure["exitCode"]) == ("chief", 75)
    assert failure["message"] == "a parameter server was lost"

    space.run("mnist-chief-0")
    space.wait_for("Restarting", "False")
    space.end("mnist-chief-0", 1, "Traceback\nValueError: bad shape")
    failed = space.wait_for("Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert "ValueError: bad shape" in failed["message"]
    assert space.condition("Succeeded") == {}
    assert space.status()["restarts"] == 1
    tells_of_a_restart_and_a_failure(operator, space.name, created)
    logs_them_with_the_fields_of_the_job(operator, space)


def tells_of_a_restart_and_a_failure(operator: Operator, namespace: str, created: float) -> None:
    """Read of a job that restarted once and then failed what the metrics say."""

    def count(name: str, **labels: str) -> float:
        return operator.metric(name, namespace=namespace, **labels)

    failed = {"state": "Failed", "strategy": "ParameterServer"}
    eventually(lambda: count("tftraining_jobs", **failed) == 1, "the store knows the end")
    assert count("tftraining_jobs") == 1, "in one state at a time"
    assert count("tftraining_job_restarts_total") == 1
    assert count("tftraining_job_restarts_total", reason="ParameterServerLost") == 1
    ended = {"result": "failed", "reason": "BackoffLimitExceeded"}
    assert count("tftraining_jobs_finished_total", **ended) == 1

    requests = "tftraining_operator_api_requests_total"
    pods = {"verb": "create", "resource": "pods"}
    assert operator.metric(requests, **pods, code="201") - created >= len(ALL) + 1
    assert operator.metric(requests, verb="list", resource="tftrainingjobs", code="200") >= 1
    assert operator.metric(requests, verb="patch", resource="tftrainingjobs/status") >= 4
    watched = "tftraining_operator_watch_events_total"
    for resource in ("pods", "services", "tftrainingjobs"):
        assert operator.metric(watched, resource=resource, type="ADDED") >= 1, resource
    polls = "tftraining_operator_progress_polls_total"
    assert operator.metric(polls, result="success") == 0, "no pod has a network"
    assert operator.metric(polls) > 0
    start = "tftraining_job_stage_duration_seconds_count"
    assert operator.metric(start, stage="start") >= 1
    passes = "tftraining_operator_reconcile_duration_seconds_count"
    assert operator.metric(passes, result="success") > 5
    assert operator.metric(passes, result="error") == 0
    assert operator.metric("tftraining_operator_workqueue_oldest_key_age_seconds") < 10
    assert operator.metric("tftraining_operator_event_loop_lag_seconds_count") > 0
    assert operator.metric("tftraining_operator_leader") == 1
    assert operator.metric("process_resident_memory_bytes") > 10e6


def logs_them_with_the_fields_of_the_job(operator: Operator, space: Namespace) -> None:
    """Read the JSON of the log: each line is a record, and those of the job can be selected."""
    eventually(lambda: f"{space.name}/mnist: Failed" in operator.logged(), "the end in the log")
    records = [json.loads(line) for line in operator.logged().splitlines()]
    assert all({"message", "timestamp", "severity", "logger"} <= set(each) for each in records)
    ours = [each for each in records if each.get("namespace") == space.name]
    uid = space.job()["metadata"]["uid"]
    assert {(each["job"], each["uid"]) for each in ours} == {("mnist", uid)}
    assert {each["attempt"] for each in ours} == {0, 1}
    assert {each["role"] for each in ours if each.get("pod") == "mnist-chief-0"} == {"chief"}
    assert any("backoffLimit (1) exceeded" in each["message"] for each in ours)


def test_a_permanent_exit_code_fails_the_job_at_once(space: Namespace) -> None:
    space.apply(manifest())
    space.wait_for_pods(*ALL)
    space.end("mnist-chief-0", 64, "--task: no module named examples.mnst")

    failed = space.wait_for("Failed")
    assert failed["reason"] == "PermanentFailure"
    assert "examples.mnst" in failed["message"]
    assert space.status()["restarts"] == 0


def test_a_failed_worker_is_replaced_and_the_job_goes_on(space: Namespace) -> None:
    space.apply(manifest())
    before = space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")
    chief = before["mnist-chief-0"]["metadata"]["uid"]

    space.delete_pod("mnist-worker-1")
    eventually(
        lambda: (
            space.pods().get("mnist-worker-1", before["mnist-worker-1"])["metadata"]["uid"]
            != before["mnist-worker-1"]["metadata"]["uid"]
        ),
        "a new worker-1",
    )
    assert space.condition("Running")["status"] == "True"
    assert space.pods()["mnist-chief-0"]["metadata"]["uid"] == chief
    assert space.status()["restarts"] == 0


def test_suspend_takes_the_pods_and_resume_brings_them_back(space: Namespace) -> None:
    space.apply(manifest())
    space.wait_for_pods(*ALL)
    space.kubectl(
        "patch", "tftj", "mnist", "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":true}}}'
    )
    space.wait_for("Suspended")
    space.wait_for_pods()
    assert space.status()["state"] == "Suspended"

    space.kubectl(
        "patch", "tftj", "mnist", "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":false}}}'
    )
    # Nobody knows that this chief could wait for its servers by itself.
    servers = space.wait_for_pods("mnist-ps-0", "mnist-worker-0", "mnist-worker-1")
    space.run(*servers)
    space.wait_for_pods(*ALL)
    space.wait_for("Suspended", "False")


def test_a_cluster_grows_when_its_new_worker_is_ready_and_shrinks_at_once(
    space: Namespace,
) -> None:
    space.apply(manifest())
    before = space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")

    space.kubectl("scale", "tftj/mnist", "--replicas=3")
    pods = space.wait_for_pods(*ALL, "mnist-worker-2")
    assert pods["mnist-chief-0"]["metadata"]["uid"] == before["mnist-chief-0"]["metadata"]["uid"]
    space.run("mnist-worker-2")
    eventually(
        lambda: "mnist-worker-2." in json.dumps(space.pods().get("mnist-chief-0", {})),
        "a chief that knows worker-2, some time after that is ready",
        45,
    )
    for server in ("mnist-ps-0", "mnist-worker-0", "mnist-worker-1"):
        assert pods[server]["metadata"]["uid"] == before[server]["metadata"]["uid"]
    assert space.status()["restarts"] == 0

    space.kubectl("scale", "tftj/mnist", "--replicas=1")
    space.wait_for_pods("mnist-chief-0", "mnist-ps-0", "mnist-worker-0")


def test_the_active_deadline_ends_the_job(space: Namespace) -> None:
    space.apply(manifest(runPolicy={"activeDeadlineSeconds": 2}))
    space.wait_for_pods(*ALL)

    failed = space.wait_for("Failed")
    assert failed["reason"] == "DeadlineExceeded"
    assert "2 s" in failed["message"]
    space.wait_for_pods()


def test_a_finished_job_is_deleted_after_its_time_to_live(space: Namespace) -> None:
    space.apply(manifest(runPolicy={"ttlSecondsAfterFinished": 1}))
    space.wait_for_pods(*ALL)
    space.run_all()
    space.end("mnist-chief-0", 0, json.dumps(DONE))

    eventually(lambda: space.job().get("code") == 404, "the job is deleted")


def test_a_job_managed_by_somebody_else_is_left_alone(space: Namespace) -> None:
    space.apply(manifest("theirs", runPolicy={"managedBy": "example.com/queue"}))
    space.apply(manifest("ours"))
    space.wait_for("Accepted", name="ours")

    assert space.status("theirs") == {}
    assert not [name for name in space.pods() if name.startswith("theirs")]


@pytest.mark.parametrize("levels", [900, 9_000])
def test_a_job_that_is_nested_too_deep_is_told_so_and_harms_no_other(
    space: Namespace, operator: Operator, levels: int
) -> None:
    deep = manifest("deep")
    deep["spec"]["template"]["spec"]["containers"][0]["extra"] = "@"
    extra = '{"a": ' * levels + "1" + "}" * levels
    space.kubectl("create", "-f", "-", stdin=json.dumps(deep).replace('"@"', extra))
    space.apply(manifest())
    space.wait_for_pods(*ALL)

    def told() -> bool:
        columns = "jsonpath={.status.conditions[?(@.type=='Accepted')].message}"
        return "more than 100 levels" in space.kubectl("get", "tftj", "deep", "-o", columns)

    eventually(told, "the deep job's condition says what is wrong")
    operator.stop()
    operator.start()
    space.kubectl("delete", "pod", "mnist-worker-0", "--grace-period=0", "--force")
    space.wait_for_pods(*ALL)
    space.kubectl("delete", "tftj", "deep")
