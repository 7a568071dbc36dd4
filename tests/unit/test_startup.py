"""What keeps a pod from running, as far as scheduler and kubelet say."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core.startup import startup

from tests.unit.builders import IMAGE, PodBuilder, a_job, a_pod, at, stamp

JOB = a_job().build()
PULL = f"image {IMAGE} cannot be pulled: check its name and tag, and imagePullSecrets"
LATER = at(60)
INITIALISING = {"waiting": {"reason": "PodInitializing"}}


def a_chief(**spec: Any) -> PodBuilder:
    pod = a_pod(JOB, Role.CHIEF)
    pod.raw["spec"].update(spec)
    return pod


def an_init(
    *statuses: dict[str, Any], native_sidecars: tuple[str, ...] = (), **spec: Any
) -> PodBuilder:
    """A pod in its init containers, which are `fetch`, `prepare` and so on."""
    names = ["fetch", "prepare", "mesh"]
    found = [{"name": name, "image": "busybox", **s} for name, s in zip(names, statuses)]  # noqa: B905
    spec["initContainers"] = [
        {"name": s["name"]} | ({"restartPolicy": "Always"} if s["name"] in native_sidecars else {})
        for s in found
    ]
    pod = a_chief(**spec).waiting("PodInitializing")
    pod.status["initContainerStatuses"] = found
    return pod


def running(seconds: float = 0, **status: Any) -> dict[str, Any]:
    return {"state": {"running": {"startedAt": stamp(seconds)}}, **status}


def ended(code: int, message: str = "", **fields: Any) -> dict[str, Any]:
    end = {"exitCode": code, "reason": "Error", "message": message, "finishedAt": stamp(5)}
    return {"state": {"terminated": end | fields}}


def crash_loop(code: int, message: str = "", **fields: Any) -> dict[str, Any]:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
    last = ended(code, message, **fields)["state"]
    return {"state": {"waiting": waiting}, "lastState": last}


def unschedulable(message: str, **spec: Any) -> PodBuilder:
    return a_chief(**spec).unschedulable(message)


def without_sandbox(*volumes: dict[str, Any]) -> PodBuilder:
    """A pod with a node, for which the kubelet has neither volumes nor network yet."""
    pod = a_chief(volumes=list(volumes), nodeName="node-1").waiting("ContainerCreating")
    pod.condition("PodScheduled", value=True, lastTransitionTime=stamp())
    return pod.condition("PodReadyToStartContainers", value=False, lastTransitionTime=stamp())


DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "mnist"}}


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
            'secret "s3" not found; create Secret s3, or correct its name',
            id="a Secret that is missing",
        ),
        pytest.param(
            a_chief().waiting(
                "CrashLoopBackOff", "back-off 10s", lastState=ended(1, "boom")["state"]
            ),
            "CrashLoopBackOff",
            "boom",
            id="a crash loop by the end of its log",
        ),
        pytest.param(
            unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
            "Unschedulable",
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu; request less (resources of the"
            " template), or add nodes",
            id="no node has room",
        ),
        pytest.param(
            unschedulable(
                "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
                " not found",
                volumes=[CLAIM],
            ),
            "Unschedulable",
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
            " PersistentVolumeClaim mnist has no volume: check its storage class (kubectl describe"
            " pvc mnist)",
            id="a claim without a volume is named",
        ),
        pytest.param(
            unschedulable(
                '0/1 nodes are available: persistentvolumeclaim "mnist" not found. not found'
            ),
            "Unschedulable",
            '0/1 nodes are available: persistentvolumeclaim "mnist" not found; create'
            " PersistentVolumeClaim mnist, or correct its name",
            id="a claim that does not exist is named once",
        ),
        pytest.param(
            a_chief(schedulingGates=[{"name": "example.com/quota"}]).condition(
                "PodScheduled", value=False, reason="SchedulingGated"
            ),
            "SchedulingGated",
            "waiting until the scheduling gate example.com/quota is removed",
            id="a scheduling gate",
        ),
        pytest.param(
            a_chief(schedulerName="volcanoo"),
            "NotScheduled",
            "scheduler volcanoo has not scheduled it; check spec.schedulerName",
            id="a scheduler that does not exist",
        ),
        pytest.param(
            an_init(running()),
            "PodInitializing",
            "waiting for init container fetch (kubectl logs mnist-chief-0 -c fetch)",
            id="an init container that hangs",
        ),
        pytest.param(
            an_init(DONE, running(), {"state": INITIALISING}),
            "PodInitializing",
            "waiting for init container prepare (kubectl logs mnist-chief-0 -c prepare)",
            id="the second init container hangs",
        ),
        pytest.param(
            an_init(running(started=False), native_sidecars=("fetch",)),
            "PodInitializing",
            "waiting for sidecar fetch to start (kubectl logs mnist-chief-0 -c fetch)",
            id="a native sidecar whose startup probe fails",
        ),
        pytest.param(
            an_init(running(started=True), running(), native_sidecars=("fetch",)),
            "PodInitializing",
            "waiting for init container prepare (kubectl logs mnist-chief-0 -c prepare)",
            id="a native sidecar that has started is not waited for",
        ),
        pytest.param(
            an_init(crash_loop(1, "connecting\nno route")),
            "InitContainerFailed",
            "init container fetch failed: exit code 1: connecting no route",
            id="an init container in a crash loop",
        ),
        pytest.param(
            an_init(ended(3)),
            "InitContainerFailed",
            "init container fetch failed: exit code 3",
            id="an init container that said nothing",
        ),
        pytest.param(
            an_init(crash_loop(137, reason="OOMKilled")),
            "InitContainerFailed",
            "out of memory: container fetch has no memory limit, so its node ran out of memory; set"
            " resources.requests.memory and resources.limits.memory to what it needs",
            id="an init container out of memory",
        ),
        pytest.param(
            an_init({"state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}),
            "ImagePullBackOff",
            "init container fetch: image busybox cannot be pulled: check its name and tag, and"
            " imagePullSecrets",
            id="the image of an init container",
        ),
        pytest.param(
            without_sandbox(
                {"name": "a", "configMap": {"name": "code"}},
                {"name": "b", "secret": {"secretName": "s3"}},
                {"name": "c", "configMap": {"name": "extra", "optional": True}},
                {"name": "d", "emptyDir": {}},
            ),
            "ContainerCreating",
            "its volumes and network are not ready: check that ConfigMap code, Secret s3 exist",
            id="a volume that the kubelet cannot mount",
        ),
        pytest.param(
            without_sandbox(
                {"name": "a", "projected": {"sources": [{"secret": {"name": "token"}}]}}
            ),
            "ContainerCreating",
            "its volumes and network are not ready: check that Secret token exists",
            id="a projected volume",
        ),
        pytest.param(
            without_sandbox(),
            "ContainerCreating",
            "its volumes and network are not ready on node node-1",
            id="a network that is not set up",
        ),
    ],
)
def test_startup_problem(pod: PodBuilder, reason: str, message: str) -> None:
    found = startup(pod.raw, LATER).cause
    assert found is not None
    assert (found.reason, found.message) == (reason, message)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_chief(), id="just made"),
        pytest.param(a_chief().waiting("ContainerCreating"), id="being created"),
        pytest.param(a_chief().running(ready=False), id="running, not ready"),
        pytest.param(a_chief().exited(1), id="one that failed has ended"),
        pytest.param(
            a_chief().condition("PodScheduled", value=False, reason="SchedulerError"),
            id="the scheduler tries again at once",
        ),
        pytest.param(a_chief(schedulerName="own", nodeName="node-1"), id="scheduled by hand"),
        pytest.param(
            without_sandbox(CLAIM).condition("PodReadyToStartContainers", value=True),
            id="with a sandbox, its image is pulled",
        ),
        pytest.param(an_init(DONE, DONE), id="all init containers are done"),
    ],
)
def test_no_startup_problem(pod: PodBuilder) -> None:
    assert startup(pod.raw, LATER).cause is None


@pytest.mark.parametrize(
    "sidecar",
    [
        pytest.param(crash_loop(1, "boom"), id="in a crash loop"),
        pytest.param(ended(1, "boom"), id="ended badly"),
        pytest.param(ended(0), id="ended well"),
    ],
)
def test_a_sidecar_is_no_problem_of_a_container_that_runs(sidecar: dict[str, Any]) -> None:
    pod = a_chief().running()
    pod.status["containerStatuses"].append({"name": "log", "image": "busybox", **sidecar})
    assert startup(pod.raw, LATER).cause is None


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(an_init(running(0)), id="an init container"),
        pytest.param(without_sandbox(CLAIM), id="volumes"),
        pytest.param(a_chief(schedulerName="own"), id="a scheduler"),
    ],
)
def test_what_is_slow_is_named_only_after_ten_seconds(pod: PodBuilder) -> None:
    early = startup(pod.raw, at(9))
    assert (early.cause, early.recheck_at) == (None, at(10))
    assert startup(pod.raw, at(10)).cause is not None
    assert startup(pod.raw, at(10)).recheck_at is None


def test_a_node_whose_clock_is_ahead_makes_nothing_slow() -> None:
    found = startup(an_init(running(3600)).raw, at(0))
    assert (found.cause, found.recheck_at) == (None, at(10))
