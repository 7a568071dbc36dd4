"""The first line of `tftj describe`, for jobs whose status the operator itself has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining.view.describe import describe
from tftraining.view.why import why
from tftraining_operator.api.keys import Role
from tftraining_operator.core.progress import PeerCause, Report, UnreachablePeer
from tftraining_operator.core.times import rfc3339
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind

from tests.unit.builders import JobBuilder, PodBuilder, Raw, a_job
from tests.unit.fakes import at_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.fakes import FakeCluster, Operator


def line(cluster: FakeCluster, *events: Raw) -> str:
    raw = next(raw for (kind, _, _), raw in cluster.objects.items() if kind is Kind.JOB)
    return str(why(raw, list(cluster.pods().values()), events, cluster.clock()))


def an_event(pod: str, reason: str, message: str, **fields: Any) -> Raw:
    return {
        "metadata": {},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "name": pod},
        **fields,
    }


def started(operator: Operator, job: JobBuilder) -> None:
    operator.cluster.submit(job.raw)
    operator.settle()


def running(operator: Operator, job: JobBuilder) -> None:
    started(operator, job)
    operator.cluster.run_pods()
    operator.settle()


def a_traceback(error: str) -> str:
    return (
        "I0000 00:00:1795334728.1 oneDNN custom operations are on\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.11/site-packages/tftrainer/main.py", line 9, in main\n'
        '  File "/task/task.py", line 12, in dataset\n'
        f"{error}\n"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            lambda pod: pod.waiting("ErrImagePull", "rpc error: manifest unknown"),
            ["ImagePullBackOff: mnist-worker-0: image example.com/trainer:1 cannot be pulled: "],
            id="an image that does not exist",
        ),
        pytest.param(
            lambda pod: pod.unschedulable("0/3 nodes are available: 3 Insufficient cpu."),
            [
                "Unschedulable: waiting since ",
                " for a node: mnist-worker-0: 0/3 nodes are available: 3 Insufficient cpu",
                "request less",
            ],
            id="no node has room, in the scheduler's words",
        ),
        pytest.param(
            lambda pod: pod.unschedulable('persistentvolumeclaim "mnist" not found. not found'),
            ['persistentvolumeclaim "mnist" not found'],
            id="a claim that does not exist",
        ),
        pytest.param(
            lambda pod: pod.waiting("CreateContainerConfigError", 'secret "key" not found'),
            ["CreateContainerConfigError: mnist-worker-0", 'secret "key" not found'],
            id="a Secret of a variable that does not exist",
        ),
    ],
)
def test_what_keeps_a_pod_from_starting_is_named(
    operator: Operator, change: Callable[[PodBuilder], object], expected: list[str]
) -> None:
    started(operator, a_job())
    operator.cluster.act("mnist-worker-0", change)
    operator.settle()
    for words in expected:
        assert words in line(operator.cluster)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        pytest.param(
            errors.ForbiddenError("exceeded quota: small, requested: pods=1", status=403),
            "QuotaExceeded",
            id="quota",
        ),
        pytest.param(
            errors.ForbiddenError(
                'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
                status=403,
            ),
            "PodSecurity",
            id="Pod Security",
        ),
    ],
)
def test_what_the_api_server_refuses_is_named(
    operator: Operator, refusal: errors.ApiError, expected: str
) -> None:
    operator.cluster.refuse = lambda kind, _body: refusal if kind is Kind.POD else None
    started(operator, a_job())
    told = line(operator.cluster)
    assert expected in told
    assert refusal.message in told


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"storageClassName": "fast"}, "storage class fast"),
        ({}, "without a storage class: there is no default one"),
    ],
)
def test_a_claim_without_a_volume_has_its_storage_class(
    operator: Operator, spec: Raw, said: str
) -> None:
    started(operator, a_job())
    (raw,) = (raw for (kind, _, _), raw in operator.cluster.objects.items() if kind is Kind.JOB)
    now = operator.cluster.clock()
    pending = {"metadata": {"name": "data"}, "spec": spec, "status": {"phase": "Pending"}}
    bound = {"metadata": {"name": "logs"}, "spec": spec, "status": {"phase": "Bound"}}

    found = describe(raw, [], (), now, claims=[pending, bound])

    assert found[0].endswith(f"; PersistentVolumeClaim data is Pending, {said}")


def test_the_kubelets_words_say_which_object_a_volume_lacks(operator: Operator) -> None:
    volume = {"name": "task", "configMap": {"name": "absent"}}
    job = a_job()
    job.raw["spec"]["template"]["spec"]["volumes"] = [volume]
    started(operator, job)

    def mount(pod: PodBuilder) -> None:
        pod.raw["spec"]["nodeName"] = "node-1"
        pod.condition("PodScheduled", value=True, lastTransitionTime=rfc3339(now()))
        pod.condition("PodReadyToStartContainers", value=False)

    now = operator.cluster.clock
    operator.cluster.act("mnist-chief-0", mount)
    operator.settle()
    said = 'MountVolume.SetUp failed for volume "task" : configmap "absent" not found'
    event = an_event("mnist-chief-0", "FailedMount", said)
    advice = "create ConfigMap absent, or correct its name"
    assert line(operator.cluster, event) == f"FailedMount: mnist-chief-0: {said}; {advice}"
    operator.wait(20)
    assert "check that ConfigMap absent exists" in line(operator.cluster)


def test_an_event_of_an_earlier_pod_of_the_name_is_not_believed(operator: Operator) -> None:
    started(operator, a_job())
    event = an_event("mnist-chief-0", "FailedMount", "old")
    event["involvedObject"]["uid"] = "uid-of-another"
    assert "old" not in line(operator.cluster, event)


def test_user_codes_exception_has_its_file_and_line(operator: Operator) -> None:
    running(operator, a_job())
    log = a_traceback("ValueError: no examples")
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(64, log))
    operator.settle()
    told = line(operator.cluster)
    assert told.startswith("Failed (PermanentFailure): mnist-chief-0 exited with 64")
    assert "ValueError: no examples (/task/task.py, line 12)" in told


def test_the_words_of_a_message_are_not_changed(operator: Operator) -> None:
    started(operator, a_job())
    words = "admission: DeletionRefused: not at night"
    operator.cluster.failing["delete"] = [errors.ForbiddenError(words, status=403)] * 3
    key = JobKey("default", "mnist")
    operator.cluster.edit(key, lambda spec: spec.update(runPolicy={"suspend": True}))
    operator.settle()
    assert words in line(operator.cluster)


def test_a_job_that_was_not_finished_in_time_has_its_last_failure(operator: Operator) -> None:
    running(operator, a_job().with_policy(activeDeadlineSeconds=100))
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(1, "ValueError: once"))
    operator.wait(30)
    operator.cluster.run_pods()
    operator.wait(100)
    assert line(operator.cluster) == (
        "Failed (DeadlineExceeded): not finished within activeDeadlineSeconds (100 s);"
        " mnist-chief-0: ValueError: once"
    )


def test_a_job_that_did_not_run_again_in_time_has_its_last_failure(operator: Operator) -> None:
    running(operator, a_job().with_policy(recoveryDeadlineSeconds=60))
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(1, "ValueError: once"))
    operator.wait(30)
    operator.cluster.act("mnist-chief-0", lambda pod: pod.running(ready=False))
    operator.wait(60)
    assert line(operator.cluster) == (
        "Failed (RecoveryDeadlineExceeded): not running again within recoveryDeadlineSeconds"
        " (60 s): not ready: mnist-chief-0; mnist-chief-0 failed before: ValueError: once"
    )


def test_a_diverged_training_says_so(operator: Operator) -> None:
    running(operator, a_job())
    text = "the loss is nan at step 12: lower the learning rate"
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(77, text))
    operator.settle()
    assert line(operator.cluster).startswith("Failed (Diverged)")
    assert "the loss is nan at step 12" in line(operator.cluster)


def test_out_of_memory_names_the_limit_and_how_many_restarts_are_left(
    operator: Operator,
) -> None:
    limit = {"limits": {"memory": "900Mi"}}
    running(operator, a_job().with_container(resources=limit))
    for _ in range(2):
        operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(137, reason="OOMKilled"))
        operator.settle()
        operator.cluster.run_pods()
        operator.wait(1)
    told = line(operator.cluster)
    assert "memory limit of 900Mi; raise resources.limits.memory" in told
    assert "; restart 2 of 3; waiting until 03:04:" in told
    assert "(in 9s)" in told or "(in 10s)" in told


def test_a_restart_that_does_not_get_on_says_what_keeps_it(operator: Operator) -> None:
    running(operator, a_job())
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(1, "ValueError: once"))
    operator.settle()
    operator.cluster.run_pods()
    operator.settle()
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(1, "ValueError: twice"))
    operator.settle()
    operator.wait(30)
    operator.cluster.act("mnist-chief-0", PodBuilder.unschedulable)
    operator.settle()
    told = line(operator.cluster)
    assert "ValueError: twice" in told
    assert "restart 2 of 3; now Unschedulable: mnist-chief-0: " in told


def test_a_stall_names_who_does_not_answer(operator: Operator) -> None:
    running(operator, a_job())
    clock = operator.cluster.clock
    operator.progress.told = {
        Role.CHIEF: Report(
            step=3,
            seconds_since_step=400,
            received=clock(),
            unreachable=[UnreachablePeer(task="ps-0", seconds=15, cause=PeerCause.TIMED_OUT)],
        )
    }
    for key in operator.progress.watched:
        operator.look(key)
    operator.settle()
    told = line(operator.cluster)
    assert told.startswith("Stalled: no new step since")
    assert "; unavailable: mnist-ps-0; connection timed out to mnist-ps-0: check " in told


def test_a_chief_that_waits_for_peers_says_for_which(operator: Operator) -> None:
    started(operator, a_job())
    for name in ("mnist-ps-0", "mnist-worker-0"):
        operator.cluster.act(name, PodBuilder.running)
    operator.cluster.act("mnist-chief-0", lambda pod: pod.running(ready=False))
    operator.settle()
    operator.progress.told = {
        Role.CHIEF: Report(waiting_for=["worker-0"], received=operator.cluster.clock())
    }
    for key in operator.progress.watched:
        operator.look(key)
    operator.settle()
    operator.wait(1)
    assert "the chief is waiting for mnist-worker-0" in line(operator.cluster)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_chief_that_lacks_dns_says_so(operator: Operator, *, restarts: bool) -> None:
    started(operator, a_job())
    if restarts:
        operator.cluster.run_pods()
        operator.settle()
        operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(1))
        operator.wait(20)
    for name in ("mnist-ps-0", "mnist-worker-0"):
        operator.cluster.act(name, PodBuilder.running)
    operator.cluster.act("mnist-chief-0", lambda pod: pod.running(ready=False))
    operator.settle()
    peer = UnreachablePeer(task="worker-0", seconds=15, cause=PeerCause.NOT_RESOLVED)
    operator.progress.told = {
        Role.CHIEF: Report(
            waiting_for=["worker-0"], unreachable=[peer], received=operator.cluster.clock()
        )
    }
    for key in operator.progress.watched:
        operator.look(key)
    operator.wait(1)
    said = (
        "ServersUnreachable: the chief is waiting for mnist-worker-0; DNS does not resolve"
        " mnist-worker-0: check Service mnist and the DNS of the cluster"
    )
    told = line(operator.cluster)
    assert told.startswith("Restarting: " if restarts else said)
    assert told.endswith(f"; now {said}" if restarts else said)


def test_a_running_job_says_how_far_it_is(operator: Operator) -> None:
    running(operator, a_job())
    report = Report(step=50, total_steps=200, steps_per_second=5.0, metrics={"loss": 0.25})
    clock = operator.cluster.clock
    operator.progress.told = {Role.CHIEF: report.model_copy(update={"received": clock()})}
    for key in operator.progress.watched:
        operator.look(key)
    operator.settle()
    expected = "Running: step 50 of 200, 25%, 5 steps/s, loss 0.25, 30s left"
    assert line(operator.cluster) == expected


def test_a_suspended_job_says_how_to_continue(operator: Operator) -> None:
    started(operator, a_job().with_policy(suspend=True))
    assert line(operator.cluster).startswith("Suspended: ")
    assert "tftj resume mnist continues it" in line(operator.cluster)


def suspended(operator: Operator) -> JobKey:
    """Suspend a job that ran, until its pods are gone."""
    running(operator, a_job())
    key = JobKey("default", "mnist")
    operator.cluster.edit(key, lambda spec: spec.update(runPolicy={"suspend": True}))
    at_rest(operator)
    return key


def test_a_suspended_job_that_is_refused_says_why(operator: Operator) -> None:
    key = suspended(operator)
    refusal = errors.InvalidObjectError("no such field", status=422)
    operator.cluster.refuse = lambda kind, _body: refusal if kind is Kind.POD else None
    operator.cluster.edit(
        key, lambda spec: spec["template"].update(metadata={"labels": {"a": "b"}})
    )
    operator.settle()
    assert line(operator.cluster).startswith("InvalidTemplate: the pod template of ")
    assert "resume" not in line(operator.cluster)


def test_a_suspended_job_that_this_version_does_not_understand_says_why(
    operator: Operator,
) -> None:
    key = suspended(operator)
    operator.cluster.edit(key, lambda spec: spec.update(strategy="TPU"))
    operator.settle()
    assert line(operator.cluster).startswith("Suspended: spec.strategy: must be one of ")
    assert "resume" not in line(operator.cluster)


def test_a_suspended_job_whose_pods_cannot_be_deleted_says_so(operator: Operator) -> None:
    started(operator, a_job())
    refusal = errors.ForbiddenError("not at night", status=403)
    operator.cluster.failing["delete"] = [refusal] * 3
    key = JobKey("default", "mnist")
    operator.cluster.edit(key, lambda spec: spec.update(runPolicy={"suspend": True}))
    operator.settle()
    told = line(operator.cluster)
    assert told.startswith("DeletionRefused: could not delete pods mnist-")
    assert "not at night; allow the operator's ServiceAccount to delete them" in told


@pytest.mark.parametrize(
    ("change", "start"),
    [
        pytest.param(
            lambda cluster: cluster.edit(
                JobKey("default", "mnist"), lambda spec: spec["worker"].update(replicas=1)
            ),
            "Restarting: scaled from 2 to 1 worker; now DeletionRefused: could not delete pod ",
            id="scaled",
        ),
        pytest.param(
            lambda cluster: cluster.act("mnist-chief-0", lambda pod: pod.exited(0)),
            "Succeeded: ",
            id="succeeded",
        ),
        pytest.param(
            lambda cluster: cluster.act("mnist-chief-0", lambda pod: pod.exited(64)),
            "Failed (PermanentFailure): mnist-chief-0 exited with 64; could not delete pods",
            id="failed",
        ),
        pytest.param(
            lambda cluster: cluster.act("mnist-worker-0", lambda pod: pod.evicted()),
            "Running: DeletionRefused: could not delete pod mnist-worker-0: ",
            id="running",
        ),
    ],
)
def test_pods_that_cannot_be_deleted_are_named(
    operator: Operator, change: Callable[[FakeCluster], object], start: str
) -> None:
    running(operator, a_job().with_workers(2))
    refusal = errors.ForbiddenError("not at night", status=403)
    operator.cluster.failing["delete"] = [refusal] * 5
    operator.cluster.failing["delete_servers"] = [refusal]
    change(operator.cluster)
    operator.wait(12)
    told = line(operator.cluster)
    assert told.startswith(start)
    assert "could not delete pod" in told
    assert "not at night; allow the operator's ServiceAccount to delete" in told
    assert "deletion is retried" in told


def test_a_job_that_no_operator_has_seen_says_so(operator: Operator) -> None:
    operator.cluster.submit(a_job().raw)
    operator.cluster.clock.tick(60)
    assert "no operator has seen it for 1m" in line(operator.cluster)
    assert "tftj doctor" in line(operator.cluster)


def test_a_job_of_another_controller_says_whose_it_is(operator: Operator) -> None:
    started(operator, a_job().with_policy(managedBy="example.com/queue"))
    assert "names example.com/queue, so the operator ignores it" in line(operator.cluster)


def test_a_job_for_multikueue_with_its_name_in_the_wrong_field_says_where(
    operator: Operator,
) -> None:
    started(operator, a_job().with_policy(managedBy="kueue.x-k8s.io/multikueue"))
    assert "Kueue reads only spec.managedBy: create the job again with it" in line(operator.cluster)


def test_a_refused_template_names_the_field(operator: Operator) -> None:
    started(operator, a_job().with_container(env=[{"name": "TF_CONFIG", "value": "{}"}]))
    told = line(operator.cluster)
    assert told.startswith("InvalidTemplate: ")
    assert "TF_CONFIG" in told


def test_a_change_that_the_operator_has_not_seen_is_mentioned(operator: Operator) -> None:
    running(operator, a_job())
    raw = next(raw for (kind, _, _), raw in operator.cluster.objects.items() if kind is Kind.JOB)
    raw["metadata"]["generation"] = 2
    assert "has not acted on the latest change" in line(operator.cluster)


def test_describe_shows_pods_failure_conditions_and_events(operator: Operator) -> None:
    running(operator, a_job())
    log = a_traceback("ValueError: no examples") + "note: more\n"
    operator.cluster.act("mnist-chief-0", lambda pod: pod.exited(64, log))
    operator.settle()
    raw = next(raw for (kind, _, _), raw in operator.cluster.objects.items() if kind is Kind.JOB)
    event = an_event("mnist-chief-0", "Failed", "first\nsecond")
    pods = list(operator.cluster.pods().values())
    text = "\n".join(describe(raw, pods, [event], operator.cluster.clock()))
    assert text.startswith("mnist: Failed (PermanentFailure)")
    assert "Cluster     ParameterServer: chief, worker, ps" in " ".join(text.split(" "))
    assert "Last failure: mnist-chief-0" in text
    assert "Finished" in text
    assert "second" not in text


class Counted(list[Raw]):
    """Events that count how many of them were looked at."""

    looked_at = 0

    def __reversed__(self) -> Iterator[Raw]:
        for event in super().__reversed__():
            self.looked_at += 1
            yield event


def test_the_events_of_a_large_job_are_looked_at_once(operator: Operator) -> None:
    """With those of each pod again, a page of a job of a thousand pods took seconds."""
    started(operator, a_job().with_workers(20))
    raw = next(raw for (kind, _, _), raw in operator.cluster.objects.items() if kind is Kind.JOB)
    pods = list(operator.cluster.pods().values())
    events = Counted(an_event(f"mnist-worker-{at}", "FailedMount", "old") for at in range(20))
    for event in events:
        event["involvedObject"]["uid"] = "of an earlier pod"
    events.append(an_event("mnist-worker-7", "FailedMount", "no such volume"))
    told = str(why(raw, pods, events, operator.cluster.clock()))
    assert told == "FailedMount: mnist-worker-7: no such volume"
    assert events.looked_at <= len(events)
