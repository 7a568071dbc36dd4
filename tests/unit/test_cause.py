"""Why a pod failed or does not start, told from what kubelet and scheduler write."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core import cause
from tftraining_operator.core.exit_codes import is_permanent

from tests.unit.builders import PodBuilder, a_job, a_pod, stamp

JOB = a_job().build()


def a_chief() -> PodBuilder:
    return a_pod(JOB, Role.CHIEF)


LOG = (
    "I0000 00:00:1795334728.140965   12961 port.cc:153] oneDNN custom operations are on.\n"
    'Traceback (most recent call last):\n  File "/app/a.py", line 5, in <module>\n    load()\n'
    "ValueError: \x1b[31mno data\x1b[0m\n"
)


def limited(memory: str) -> PodBuilder:
    job = a_job().with_container(resources={"limits": {"memory": memory}})
    return a_pod(job.build(), Role.CHIEF)


def probed(**probe: Any) -> PodBuilder:
    return a_pod(a_job().with_container(livenessProbe=probe).build(), Role.CHIEF)


def past_its_deadline(pod: PodBuilder) -> PodBuilder:
    words = "Pod was active on the node longer than the specified deadline"
    pod.status.update(reason="DeadlineExceeded", message=words)
    return pod


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
            a_chief().exited(137, "INFO connected", reason="OOMKilled"),
            "OOMKilled",
            137,
            "out of memory: container tensorflow has no memory limit, so its node ran out of"
            " memory; set resources.requests.memory and resources.limits.memory to what it needs",
            id="OOM without a limit",
        ),
        pytest.param(
            limited("900Mi").exited(137, "INFO connected", reason="OOMKilled"),
            "OOMKilled",
            137,
            "out of memory: container tensorflow exceeded its memory limit of 900Mi; raise"
            " resources.limits.memory",
            id="OOM with its limit, never a line of the log",
        ),
        pytest.param(
            a_chief().exited(137, "last line"),
            "ExitCode",
            137,
            "killed (SIGKILL): it ran out of memory, or something on its node killed it",
            id="SIGKILL, of which a log cannot know",
        ),
        pytest.param(
            probed(httpGet={"port": 8080, "path": "/healthz"}).exited(137, "last line"),
            "ExitCode",
            137,
            "killed (SIGKILL): its liveness probe (httpGet port 8080 /healthz) failed, it ran out"
            " of memory, or something on its node killed it",
            id="SIGKILL beside a liveness probe",
        ),
        pytest.param(
            probed(exec={"command": ["alive"]}).exited(143, "ended by SIGTERM"),
            "ExitCode",
            143,
            "terminated (SIGTERM), probably because its liveness probe (exec) failed; correct"
            " livenessProbe, or raise its failureThreshold.\n"
            "ended by SIGTERM",
            id="SIGTERM beside a liveness probe",
        ),
        pytest.param(
            probed(tcpSocket={"port": 1}).exited(143, "ended by SIGTERM").deleting(),
            "ExitCode",
            143,
            "ended by SIGTERM",
            id="SIGTERM of a pod that is deleted",
        ),
        pytest.param(
            a_chief().exited(1, LOG),
            "ExitCode",
            1,
            "ValueError: no data (/app/a.py, line 5)",
            id="an exception below the notes of TensorFlow",
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
            past_its_deadline(a_chief().exited(143, "ended by SIGTERM")),
            "DeadlineExceeded",
            143,
            "Pod was active on the node longer than the specified deadline",
            id="ended for the activeDeadlineSeconds of its template",
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
        pytest.param(
            a_chief().exited(139, '{"version":1,"role":"chief","phase":"done","step":10}'),
            "ExitCode",
            139,
            "",
            id="a signal after the last report of a script",
        ),
        pytest.param(
            a_chief().exited(3, '{"error":"no data"}'),
            "ExitCode",
            3,
            '{"error":"no data"}',
            id="a cause that an image of one's own writes as JSON",
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
    # Its exit code is not one of the trainer's.
    assert (found.reason, found.exit_code, found.message) == (
        "ContainerFailed",
        None,
        "init container fetch failed: exit code 3: no route",
    )


def test_a_pod_that_is_evicted_while_it_initializes_was_evicted() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "Error"}}
    words = 'Usage of EmptyDir volume "data" exceeds the limit "1Gi". '
    found = cause.failure(an_init(a_chief(), state=ended).evicted(words).raw)
    assert found is not None
    assert (found.reason, found.message) == ("Evicted", words.strip())


@pytest.mark.parametrize("word", ["StartError", "ContainerCannotRun"])
def test_what_cannot_be_started_at_all_is_permanent(word: str) -> None:
    found = cause.failure(a_chief().exited(128, reason=word).raw)
    assert found is not None
    assert is_permanent(found)


def test_only_a_true_disruption_target_is_a_disruption() -> None:
    assert cause.disruption(a_chief().disrupted().raw) is not None
    assert cause.disruption(a_chief().condition("DisruptionTarget", value=False).raw) is None
    assert cause.disruption(a_chief().raw) is None


def test_another_container_does_not_speak_for_the_one_that_trains() -> None:
    pod = a_chief().running()
    ended = {"terminated": {"exitCode": 9, "reason": "Error"}}
    pod.status["containerStatuses"].insert(0, {"name": "log", "state": ended})
    assert cause.failure(pod.raw) is None


def refused_by_kubelet(reason: str) -> PodBuilder:
    pod = a_chief()
    pod.status.update(phase="Failed", reason=reason, message="Pod was rejected", startTime=stamp(3))
    return pod


@pytest.mark.parametrize(
    "reason",
    [
        *("OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "OutOfnvidia.com/gpu"),
        *("NodeAffinity", "NodePorts", "UnexpectedAdmissionError", "PodTopologySpread"),
        *("TopologyAffinityError", "NodeShutdown", "Terminated", "Preempting"),
        pytest.param("Evicted", id="its node lacks disk or memory"),
        "VolumeAttachmentLimitExceeded",
    ],
)
def test_what_the_kubelet_refuses_before_it_runs_is_a_disruption(reason: str) -> None:
    found = cause.disruption(refused_by_kubelet(reason).raw)
    assert found is not None
    assert (found.reason, found.message, found.time) == (reason, "Pod was rejected", stamp(3))


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_chief().running(), id="as it was seen last"),
        pytest.param(a_chief().exited(143), id="terminated"),
        pytest.param(a_chief().exited(137, reason="ContainerStatusUnknown"), id="gone"),
        pytest.param(a_chief().exited(255, reason="Unknown"), id="gone, in containerd's word"),
    ],
)
def test_a_pod_that_ran_on_a_node_that_refuses_it_after_a_reboot_is_disrupted(
    pod: PodBuilder,
) -> None:
    pod.status.update(phase="Failed", reason="UnexpectedAdmissionError")
    found = cause.disruption(pod.raw)
    assert found is not None
    assert found.reason == "UnexpectedAdmissionError"


@pytest.mark.parametrize(
    ("code", "word"), [(255, "Unknown"), (137, "ContainerStatusUnknown")], ids=str
)
def test_a_container_that_was_gone_when_its_node_came_back_was_disrupted(
    code: int, word: str
) -> None:
    found = cause.disruption(a_chief().exited(code, reason=word, seconds=9).raw)
    assert found is not None
    assert (found.reason, found.time) == ("ContainerStatusUnknown", stamp(9))


@pytest.mark.parametrize("reason", ["Terminated", "NodeShutdown"])
def test_a_pod_that_its_node_ends_as_it_shuts_down_is_disrupted(reason: str) -> None:
    pod = a_chief().exited(143, seconds=9)
    pod.status.update(phase="Failed", reason=reason)
    found = cause.disruption(pod.raw)
    assert found is not None
    assert found.time == stamp(9)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(refused_by_kubelet("DeadlineExceeded"), id="the pod's own deadline"),
        pytest.param(refused_by_kubelet("AppArmor"), id="what no node will run"),
        pytest.param(a_chief().exited(137, reason="OOMKilled"), id="a container out of memory"),
        pytest.param(a_chief().exited(255), id="a code that a node gives as well"),
        pytest.param(a_chief().running().evicted(), id="evicted for its own use of disk"),
        pytest.param(
            a_chief().exited(137, reason="ContainerStatusUnknown").evicted(),
            id="evicted, and gone when its kubelet looked",
        ),
    ],
)
def test_what_the_pod_does_to_itself_is_no_disruption(pod: PodBuilder) -> None:
    assert cause.disruption(pod.raw) is None


def test_a_container_that_had_failed_was_not_refused() -> None:
    pod = a_chief().exited(1)
    pod.status.update(phase="Failed", reason="OutOfcpu")
    assert cause.disruption(pod.raw) is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param("x not found. not found", "x not found", id="what is said twice"),
        pytest.param(
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption:"
            " 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="that preempting would not help",
        ),
        pytest.param("unbound claims. not found", "unbound claims.", id="what says nothing"),
        pytest.param("a\x1b[31m\x00b\r\nc", "ab\nc", id="control characters"),
    ],
)
def test_cluster_text(given: str, shown: str) -> None:
    assert cause.cluster_text(given) == shown
