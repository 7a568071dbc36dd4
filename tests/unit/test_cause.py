"""Why a pod failed or does not start, told from what kubelet and scheduler write."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core import cause
from tftraining_operator.core.exit_codes import is_permanent

from tests.unit.builders import IMAGE, PodBuilder, a_job, a_pod, stamp

JOB = a_job().build()
PULL = f"image {IMAGE} cannot be pulled: check its name and tag, and imagePullSecrets"


def a_chief() -> PodBuilder:
    return a_pod(JOB, Role.CHIEF)


def an_init(pod: PodBuilder, **state: Any) -> PodBuilder:
    pod.status["initContainerStatuses"] = [{"name": "fetch", "image": "busybox", **state}]
    return pod.waiting("PodInitializing")


@pytest.mark.parametrize(
    ("pod", "reason", "code", "message"),
    [
        pytest.param(
            a_chief().exited(1, "ValueError: no data"),
            "ExitCode",
            1,
            "ValueError: no data",
            id="an exit code, with the log's last lines",
        ),
        pytest.param(
            a_chief().exited(137, reason="OOMKilled"), "OOMKilled", 137, "", id="OOM by its word"
        ),
        pytest.param(
            a_chief().exited(137),
            "ExitCode",
            137,
            "killed by SIGKILL: out of memory, or ended by the node",
            id="OOM without its word is told as what it may be",
        ),
        pytest.param(
            a_chief().exited(137, "last line"), "ExitCode", 137, "last line", id="SIGKILL with log"
        ),
        pytest.param(
            a_chief().evicted(),
            "Evicted",
            None,
            "The node was low on resource: memory.",
            id="evicted before it had a container",
        ),
        pytest.param(
            a_chief().exited(137).evicted(),
            "Evicted",
            137,
            "The node was low on resource: memory.",
            id="evicted while it ran",
        ),
        pytest.param(
            a_chief().exited(128, "exec: no such file", reason="StartError"),
            "StartError",
            128,
            "exec: no such file",
            id="a command that cannot be started",
        ),
        pytest.param(
            a_chief().restarted_in_place(1, "boom"), "ExitCode", 1, "boom", id="restarted in place"
        ),
    ],
)
def test_failure(pod: PodBuilder, reason: str, code: int | None, message: str) -> None:
    found = cause.failure(pod.raw)
    assert found is not None
    assert (found.reason, found.exit_code, found.message) == (reason, code, message)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_chief(), id="one that is pending"),
        pytest.param(a_chief().running(), id="one that runs"),
        pytest.param(a_chief().exited(0), id="one that ended well"),
        pytest.param(a_chief().waiting("ErrImagePull"), id="one that waits"),
    ],
)
def test_no_failure(pod: PodBuilder) -> None:
    assert cause.failure(pod.raw) is None


def test_a_failure_is_dated_by_the_kubelet() -> None:
    found = cause.failure(a_chief().exited(1, seconds=42).raw)
    assert found is not None
    assert found.time == stamp(42)


def test_an_init_container_that_failed_is_named() -> None:
    ended = {"terminated": {"exitCode": 3, "reason": "Error", "message": "no route"}}
    pod = an_init(a_chief(), state=ended)
    pod.status["phase"] = "Failed"
    found = cause.failure(pod.raw)
    assert found is not None
    assert (found.exit_code, found.message) == (3, "container fetch: no route")


@pytest.mark.parametrize("word", ["StartError", "ContainerCannotRun"])
def test_what_cannot_be_started_at_all_is_permanent(word: str) -> None:
    found = cause.failure(a_chief().exited(128, reason=word).raw)
    assert found is not None
    assert is_permanent(found)


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        pytest.param(
            a_chief().waiting("ErrImagePull", "rpc error"), "ImagePullBackOff", PULL, id="pull"
        ),
        pytest.param(
            a_chief().waiting("ImagePullBackOff", "Back-off pulling"),
            "ImagePullBackOff",
            PULL,
            id="back-off from pulling reads as the same cause",
        ),
        pytest.param(
            a_chief().waiting("InvalidImageName", "couldn't parse"),
            "InvalidImageName",
            f"image {IMAGE}: couldn't parse",
            id="an image name that is none",
        ),
        pytest.param(
            a_chief().waiting("CreateContainerConfigError", 'secret "s3" not found'),
            "CreateContainerConfigError",
            'secret "s3" not found',
            id="a Secret that is missing",
        ),
        pytest.param(
            a_chief().unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
            "Unschedulable",
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            id="no node has room",
        ),
        pytest.param(
            a_chief().condition("PodScheduled", value=False, reason="SchedulingGated"),
            "SchedulingGated",
            "",
            id="a gate is shut",
        ),
        pytest.param(
            an_init(
                a_chief(),
                state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                lastState={"terminated": {"exitCode": 1, "message": "no route"}},
            ),
            "CrashLoopBackOff",
            "no route",
            id="an init container in a crash loop says its last words",
        ),
        pytest.param(
            a_chief().waiting(
                "CrashLoopBackOff",
                "back-off 10s",
                lastState={"terminated": {"exitCode": 1, "message": "boom"}},
            ),
            "CrashLoopBackOff",
            "boom",
            id="a crash loop says its last words",
        ),
    ],
)
def test_trouble(pod: PodBuilder, reason: str, message: str) -> None:
    found = cause.startup_problem(pod.raw)
    assert found is not None
    assert (found.reason, found.message) == (reason, message)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_chief(), id="just made"),
        pytest.param(a_chief().waiting("ContainerCreating"), id="being created"),
        pytest.param(an_init(a_chief(), state={"running": {}}), id="initialising"),
        pytest.param(a_chief().running(ready=False), id="running, not ready"),
        pytest.param(a_chief().exited(1), id="failed: that is no trouble, but an end"),
    ],
)
def test_no_trouble(pod: PodBuilder) -> None:
    assert cause.startup_problem(pod.raw) is None


def test_only_a_true_disruption_target_is_a_disruption() -> None:
    assert cause.disruption(a_chief().disrupted().raw) is not None
    assert cause.disruption(a_chief().condition("DisruptionTarget", value=False).raw) is None
    assert cause.disruption(a_chief().raw) is None


def test_of_a_long_message_the_end_is_kept() -> None:
    found = cause.failure(a_chief().exited(1, "x" * 5000 + "\nthe point").raw)
    assert found is not None
    assert found.message.endswith("the point")
    assert len(found.message) <= cause.MESSAGE_LIMIT + 1


def test_another_container_does_not_speak_for_the_one_that_trains() -> None:
    pod = a_chief().running()
    ended = {"terminated": {"exitCode": 9, "reason": "Error"}}
    pod.status["containerStatuses"].insert(0, {"name": "log", "state": ended})
    assert cause.failure(pod.raw) is None
