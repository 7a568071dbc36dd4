"""Every mistake ends in a message that names the field or the pod, and what to do."""

import copy
import time
from datetime import datetime
from typing import Any

import pytest

from e2e.scenarios.space import RESTRICTED, Space, job
from tools.cluster import ClusterError
from tools.waiting import eventually

_Object = dict[str, Any]
_SECONDS = 60
DEADLINE_SECONDS = 10
LATE_SECONDS = 2
NAMED_WITHIN_SECONDS = 5


def with_container(**fields: Any) -> _Object:  # noqa: ANN401 - YAML
    """Return a job whose training container has these fields."""
    made = copy.deepcopy(job())
    made["spec"]["template"]["spec"]["containers"][0].update(fields)
    return made


def seconds_between(first: str, second: str) -> float:
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        pytest.param(
            job(worker={"replcas": 2}), ['unknown field "spec.worker.replcas"'], id="a typo"
        ),
        pytest.param(
            job(chief={"replicas": 2}),
            ["spec.chief.replicas", "set 1 or omit replicas"],
            id="two chiefs",
        ),
        pytest.param(job(ps={"replicas": 0}), ["spec.ps", "set spec.ps.replicas to 1"], id="no ps"),
        pytest.param(job("a" * 60), ["the job's name", "at most 51"], id="a name of 60 characters"),
        pytest.param(
            job(strategy="Parameter"), ["spec.strategy", "ParameterServer"], id="strategy"
        ),
    ],
)
def test_what_the_api_server_refuses(space: Space, made: _Object, words: list[str]) -> None:
    with pytest.raises(ClusterError) as refused:
        space.apply(made)

    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("made", "condition", "reason", "words"),
    [
        pytest.param(
            with_container(imag="x"),
            *("Accepted", "InvalidTemplate"),
            ["spec.containers[0].imag", "spec.template"],
            id="a typo in the template",
        ),
        pytest.param(
            with_container(env=[{"name": "TF_CONFIG", "value": "{}"}]),
            *("Accepted", "InvalidTemplate"),
            ["TF_CONFIG", "remove it"],
            id="a variable that is the operator's",
        ),
        pytest.param(
            with_container(resources={"requests": {"cpu": "9999"}}),
            *("PodsReady", "Unschedulable"),
            ["mnist-", "Insufficient cpu"],
            id="impossible resources",
        ),
        pytest.param(
            with_container(image="any:1"),
            *("PodsReady", "PodSecurity"),
            ["mnist-", "violates PodSecurity"],
            id="a pod that the namespace's security standard forbids",
        ),
        pytest.param(
            job(checkpoint={"persistentVolumeClaim": {"claimName": "missing"}}),
            *("PodsReady", "Unschedulable"),
            ["mnist-chief-0", 'persistentvolumeclaim "missing" not found'],
            id="a claim that does not exist",
        ),
    ],
)  # fmt: skip
def test_what_the_operator_reports(
    space: Space, made: _Object, condition: str, reason: str, words: list[str]
) -> None:
    space.apply(made)
    found = eventually(
        lambda: c if (c := space.condition(condition)).get("reason") == reason else None,
        f"{condition} with reason {reason}; it is {space.condition(condition)}",
        _SECONDS,
    )

    assert found["status"] == "False"
    for word in words:
        assert word in found["message"]
    assert space.status()["state"] == reason
    eventually(
        lambda: reason in {event["reason"] for event in space.events()}, f"event {reason}", 10
    )


def test_a_bad_image_is_named_in_seconds_and_the_deadline_falls_when_it_is_due(
    space: Space,
) -> None:
    # Whatever else the machine does takes its time as well: the quickest of three counts.
    named, late = [], []
    for name in ("first", "second", "third"):
        made = with_container(image="no-such-image:1", securityContext=RESTRICTED)
        made["metadata"]["name"] = name
        made["spec"]["runPolicy"] = {"activeDeadlineSeconds": DEADLINE_SECONDS}
        began = time.monotonic()
        space.apply(made)
        message = _message_about_the_image(space, name)
        named.append(time.monotonic() - began)
        for word in (f"{name}-", "no-such-image:1", "imagePullSecrets"):
            assert word in message
        failed = space.wait_for("Failed", name=name, seconds=_SECONDS)
        assert failed["reason"] == "DeadlineExceeded"
        status = space.status(name)
        lasted = seconds_between(status["startTime"], status["completionTime"])
        assert lasted >= DEADLINE_SECONDS
        late.append(lasted - DEADLINE_SECONDS)
        if named[-1] <= NAMED_WITHIN_SECONDS and late[-1] <= LATE_SECONDS:
            return
    pytest.fail(f"named after {named} s, too late by {late} s")


def _message_about_the_image(space: Space, name: str) -> str:
    def message() -> str | None:
        found = space.condition("PodsReady", name)
        return found["message"] if found.get("reason") == "ImagePullBackOff" else None

    return eventually(message, "PodsReady with reason ImagePullBackOff", _SECONDS)


def test_a_quota_that_is_used_up(space: Space) -> None:
    space.kubectl("create", "quota", "few", "--hard=pods=1")
    eventually(lambda: space.read("quota/few").get("status", {}).get("hard"), "the quota", 30)
    space.apply(job())
    found = eventually(
        lambda: c if (c := space.condition("PodsReady")).get("reason") == "QuotaExceeded" else None,
        "PodsReady with reason QuotaExceeded",
        _SECONDS,
    )
    assert "exceeded quota: few" in found["message"]


def test_a_wrong_task_fails_at_once_and_says_why(space: Space) -> None:
    made = job()
    made["spec"]["template"]["spec"]["containers"][0]["args"] = ["--task=tftrainer.examples.mnst"]
    space.apply(made)

    failed = space.wait_for("Failed", seconds=_SECONDS)
    assert failed["reason"] == "PermanentFailure"
    assert "tftrainer.examples.mnst" in failed["message"]
    assert space.status()["lastFailure"]["exitCode"] == 64


def test_a_job_that_cannot_start_ends_at_its_startup_deadline(space: Space) -> None:
    made = with_container(resources={"requests": {"cpu": "9999"}})
    made["spec"]["runPolicy"] = {"startupDeadlineSeconds": 5}
    space.apply(made)

    failed = space.wait_for("Failed", seconds=_SECONDS)
    assert failed["reason"] == "StartupDeadlineExceeded"
    assert "Insufficient cpu" in failed["message"]
    eventually(lambda: not space.pods(), "its pods are gone", _SECONDS)
