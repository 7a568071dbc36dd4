"""What is dropped of an object is read by nobody: observed, a slim pod is the whole one."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired, slim
from tftraining_operator.core.job import parse_job
from tftraining_operator.core.observed import observe
from tftraining_operator.core.trainer_image import trainer_image

from tests.unit.builders import IMAGE, NOW, a_job

LATER = NOW.replace(hour=23)
RUNNING = {"running": {"startedAt": "2026-01-02T03:00:00Z"}}
OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-02T03:00:09Z"}}
KILLED = {
    "terminated": {"exitCode": 137, "message": "last words", "startedAt": "2026-01-02T03:00:00Z"}
}


def status(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "tensorflow", "image": "trainer:1", "state": state, "restartCount": 2} | more


def condition(kind: str, value: str, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-02T03:00:01Z",
        **more,
    }


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({}, id="just created"),
        pytest.param(
            {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "conditions": [condition("Ready", "True")],
                "containerStatuses": [status(RUNNING, ready=True)],
            },
            id="ready",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [status(OOM)]}, id="out of memory, by a limit"
        ),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [
                    status({"waiting": {"reason": "CrashLoopBackOff"}}, lastState=KILLED)
                ],
            },
            id="killed by its probe, and waits",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": [status({"waiting": {"reason": "ErrImagePull"}})],
            },
            id="without its image",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [condition("PodScheduled", "False", reason="SchedulingGated")],
            },
            id="gated",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [
                    condition(
                        "PodScheduled",
                        "False",
                        reason="Unschedulable",
                        message="pod has unbound immediate PersistentVolumeClaims",
                    )
                ],
            },
            id="without its claim",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [
                    condition("PodScheduled", "True"),
                    condition("PodReadyToStartContainers", "False"),
                ],
            },
            id="without its volumes",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    {"name": "sidecar", "started": False, "state": RUNNING, "ready": False}
                ],
            },
            id="waiting for a sidecar",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "initContainerStatuses": [{"name": "setup", "state": OOM}],
            },
            id="failed in an init container",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "low on memory",
                "startTime": "2026-01-02T03:00:00Z",
            },
            id="evicted",
        ),
        pytest.param(
            {
                "phase": "Running",
                "conditions": [
                    condition("DisruptionTarget", "True", reason="PreemptionByScheduler")
                ],
            },
            id="preempted",
        ),
    ],
)
def test_a_slim_pod_is_observed_as_the_whole_one(found: dict[str, Any]) -> None:
    job = a_job().with_workers(1).build()
    raw = desired.pod(job, Role.CHIEF, 0, 0, IMAGE)
    raw["metadata"] |= {
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-02T03:00:00Z",
        "managedFields": [{"manager": "kubelet"}],
    }
    raw["metadata"]["annotations"] = {
        **raw["metadata"].get("annotations", {}),
        "tftraining.dev/workers": "1",
        "tftraining.dev/gang": "g",
        "cni.example/network": "x" * 1000,
    }
    container = raw["spec"]["containers"][0]
    container |= {
        "resources": {"limits": {"memory": "2Gi", "cpu": "1"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
    }
    raw["spec"] |= {
        "nodeName": "node-1",
        "schedulerName": "volcano",
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
        "initContainers": [
            {"name": "sidecar", "restartPolicy": "Always", "image": "s"},
            {"name": "setup", "resources": {"limits": {"memory": "1Gi"}}},
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "cache", "emptyDir": {}},
            {"name": "key", "secret": {"secretName": "key"}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
        ],
    }
    raw["status"] = found
    whole, before = copy.deepcopy(raw), json.dumps(raw)
    kept = slim.pod(raw)
    assert json.dumps(raw) == before, "it is not changed"
    assert observe(job, [kept], [], LATER) == observe(job, [whole], [], LATER)
    images = [trainer_image(job, lambda raw=raw: [raw], "none") for raw in (kept, whole)]
    assert images[0] == images[1]
    assert slim.pod(kept) == kept
    assert len(json.dumps(kept)) < len(json.dumps(whole)) / 2


def test_a_slim_service_is_observed_as_the_whole_one() -> None:
    job = a_job().with_workers(1).build()
    raw = desired.service(job)
    raw["metadata"] |= {"uid": "u1", "resourceVersion": "7"}
    for changed in ({}, {"selector": {"app": "other"}}, {"publishNotReadyAddresses": False}):
        whole = {**raw, "spec": {**raw["spec"], **changed}, "status": {"loadBalancer": {}}}
        kept = slim.service(whole)
        assert observe(job, [], [kept], NOW) == observe(job, [], [whole], NOW)


@pytest.mark.parametrize("annotations", [{}, {keys.PREBUILT_WORKLOAD: "mnist-1a2b3"}])
def test_a_slim_job_is_understood_as_the_whole_one(annotations: dict[str, str]) -> None:
    noted = {
        "annotations": {"a": "b", **annotations},
        "managedFields": [{"manager": "kubectl"}],
        "finalizers": ["kueue.x-k8s.io/managed"],
    }
    read = {
        "resourceVersion": "7",
        "generation": 3,
        "labels": {keys.LABEL_QUEUE: "team-a"},
        "deletionTimestamp": "2026-01-02T03:00:00Z",
        **({"annotations": annotations} if annotations else {}),
    }
    raw = a_job().with_workers(2).raw | {"status": {"state": "Running", "fromLater": {"x": [1]}}}
    raw["metadata"] |= read
    whole = {**raw, "metadata": raw["metadata"] | noted}
    assert slim.job(whole) == raw
    assert parse_job(slim.job(whole), NOW) == parse_job(whole, NOW)


def test_what_there_are_few_of_is_kept_but_for_what_others_noted() -> None:
    raw = {
        "metadata": {"name": "mnist", "managedFields": [{}], "annotations": {"a": "b"}},
        "spec": {"minMember": 3},
    }
    assert slim.other(raw) == raw | {"metadata": {"name": "mnist"}}
