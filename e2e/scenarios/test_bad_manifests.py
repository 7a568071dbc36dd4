"""Every mistake ends in a message that names the field or the pod, and what to do."""

import time
from datetime import datetime
from typing import Any

import pytest

from e2e.scenarios.broken_jobs.broken_job import BrokenJob, Told, missing, with_container
from e2e.scenarios.broken_jobs.looking import told_of
from e2e.scenarios.broken_jobs.manifests import WAITING
from e2e.scenarios.space import RESTRICTED, Space, job
from tools.cluster import Cluster, ClusterError
from tools.waiting import eventually

_Object = dict[str, Any]
_SECONDS = 60
DEADLINE_SECONDS = 10
LATE_SECONDS = 2
NAMED_WITHIN_SECONDS = 5

_CONDITIONS = {"InvalidTemplate": "Accepted", "DeletionRefused": "Suspended"}
"""Where a state is the reason of a condition; of all others PodsReady."""


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


def test_each_broken_job_names_cause_and_remedy(cluster: Cluster) -> None:
    told = told_of(cluster, WAITING, at_once=10)

    wrong = {
        broken.name: (lacking, each)
        for broken, each in zip(WAITING, told, strict=True)
        if (lacking := [*missing(broken, each), *_unreasoned(broken, each)])
    }
    assert wrong == {}


def _unreasoned(broken: BrokenJob, told: Told) -> list[str]:
    """Return where programs do not find the state: as reason of the event and of a condition."""
    if broken.state == "Failed":  # the event has the reason of the pod's failure
        return []
    if not told.event.startswith(f"{broken.state}: "):
        return [f"event with reason {broken.state}"]
    found = {each["type"]: each for each in told.conditions if each["reason"] == broken.state}
    kind = _CONDITIONS.get(broken.state, "PodsReady")
    value = "True" if kind == "Suspended" else "False"
    if kind not in found or found[kind]["status"] != value:
        return [f"condition {kind}={value} with reason {broken.state}"]
    return [f'{kind}: "{word}"' for word in broken.words if word not in found[kind]["message"]]


@pytest.mark.alone
def test_a_bad_image_is_named_in_seconds_and_the_deadline_falls_when_it_is_due(
    space: Space,
) -> None:
    # Mostly it is the kubelet's time, which starts a pod in seconds only on a machine that does
    # nothing else. The quickest of three counts.
    named, late = [], []
    for name in ("first", "second", "third"):
        made = with_container(name, image="no-such-image:1", securityContext=RESTRICTED)
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


def test_a_wrong_task_fails_at_once_and_says_why(space: Space) -> None:
    made = job()
    made["spec"]["template"]["spec"]["containers"][0]["args"] = ["--task=tftrainer.examples.mnst"]
    space.apply(made)

    failed = space.wait_for("Failed", seconds=_SECONDS)
    assert failed["reason"] == "PermanentFailure"
    assert "tftrainer.examples.mnst" in failed["message"]
    assert space.status()["lastFailure"]["exitCode"] == 64


def test_a_job_that_cannot_start_ends_at_its_startup_deadline(space: Space) -> None:
    made = with_container("mnist", resources={"requests": {"cpu": "9999"}})
    made["spec"]["runPolicy"] = {"startupDeadlineSeconds": 5}
    space.apply(made)

    failed = space.wait_for("Failed", seconds=_SECONDS)
    assert failed["reason"] == "StartupDeadlineExceeded"
    assert "Insufficient cpu" in failed["message"]
    eventually(lambda: not space.pods(), "its pods are gone", _SECONDS)
