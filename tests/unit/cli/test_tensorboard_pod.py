"""The pod that serves a job's logs: its permissions, its node and its volumes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tftraining import helper_pod
from tftraining.cli import tensorboard_pod
from tftraining.errors import InputError
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role

from tests.unit.builders import IMAGE, Raw, a_job, a_pod
from tests.unit.strictness import unknown_fields

JOB = a_job().with_evaluator()
CHIEF = a_pod(JOB.build(), Role.CHIEF).running().raw
EVALUATOR = a_pod(JOB.build(), Role.EVALUATOR).running().raw


def made(job: Raw | None = None, *pods: Raw) -> Raw:
    return tensorboard_pod.pod("mnist-tensorboard-a1", job or JOB.raw, pods, IMAGE)


def job_with(**checkpoint: Any) -> Raw:
    return a_job().with_spec(checkpoint=checkpoint).raw


def test_a_strict_api_server_knows_every_field() -> None:
    assert unknown_fields("Pod", made(None, CHIEF)) == []


def test_it_mounts_the_jobs_claim_read_only_and_reads_the_logs() -> None:
    spec = made(job_with(persistentVolumeClaim={"claimName": "data"}, path="/keep"))["spec"]
    (container,) = spec["containers"]
    assert {"name": "checkpoint", "persistentVolumeClaim": {"claimName": "data"}} in spec["volumes"]
    mount = {"name": "checkpoint", "mountPath": "/keep", "readOnly": True}
    assert mount in container["volumeMounts"]
    assert "--logdir=/keep/logs" in container["args"]


def test_it_reads_the_directory_of_the_job_where_several_share_the_volume() -> None:
    job = job_with(persistentVolumeClaim={"claimName": "data"})
    job["status"] = {"lastCheckpoint": {"step": 7, "path": "/checkpoints/mnist/ckpt-7"}}
    assert "--logdir=/checkpoints/mnist/logs" in made(job)["spec"]["containers"][0]["args"]
    job["status"] = {"lastCheckpoint": {"step": 7, "path": "/elsewhere/ckpt-7"}}
    assert "--logdir=/checkpoints/logs" in made(job)["spec"]["containers"][0]["args"]


def test_a_uri_is_passed_on_without_a_volume() -> None:
    spec = made(job_with(uri="gs://bucket/mnist/"), CHIEF)["spec"]
    assert "--logdir=gs://bucket/mnist/logs" in spec["containers"][0]["args"]
    assert [volume["name"] for volume in spec["volumes"]] == ["tmp"]
    assert "affinity" not in spec


def test_it_meets_the_restricted_standard_and_has_no_token() -> None:
    spec = made()["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_it_has_a_deadline_and_listens_on_loopback_only() -> None:
    spec = made()["spec"]
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 8 * 3600)
    (container,) = spec["containers"]
    assert "--host=127.0.0.1" in container["args"]
    assert "ports" not in container
    assert "exec" in container["readinessProbe"]


def test_it_has_none_of_the_operators_labels() -> None:
    metadata = made()["metadata"]
    assert not [label for label in metadata["labels"] if label.startswith(keys.GROUP)]
    assert "ownerReferences" not in metadata
    assert not re.fullmatch(r"mnist-(chief|worker|ps|evaluator)-\d+", metadata["name"])


def test_it_runs_on_the_node_of_a_running_chief() -> None:
    affinity = made(None, EVALUATOR, CHIEF)["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    by_name = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    assert term == {"matchFields": [by_name]}


def test_it_runs_anywhere_after_the_chief() -> None:
    done = a_pod(JOB.build(), Role.CHIEF).exited(0).raw
    assert "affinity" not in made(None, done)["spec"]
    assert "affinity" not in made(None, EVALUATOR)["spec"]


def test_it_has_the_chiefs_access_to_image_node_and_files() -> None:
    fields = {
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeSelector": {"zone": "a"},
        "serviceAccountName": "trainer",
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
    }
    job = a_job().with_evaluator()
    job.raw["spec"]["template"]["spec"] |= fields
    for spec in (made(job.raw)["spec"], made(None, a_pod(job.build(), Role.CHIEF).raw)["spec"]):
        assert {field: spec[field] for field in fields if field != "securityContext"} == {
            field: value for field, value in fields.items() if field != "securityContext"
        }
        assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (
            1000,
            1000,
        )
        assert spec["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    ("job", "message"),
    [
        pytest.param(a_job().raw, "mnist saves no logs: set spec.checkpoint", id="no checkpoints"),
        pytest.param(
            job_with(emptyDir={}),
            "saves its logs in its chief's emptyDir, which no other pod",
            id="emptyDir",
        ),
    ],
)
def test_logs_that_no_pod_can_mount_are_refused(job: Raw, message: str) -> None:
    with pytest.raises(InputError) as refused:
        made(job)
    assert message in str(refused.value)


def test_the_image_is_taken_from_the_pods_then_from_the_template_then_from_the_status() -> None:
    other = a_pod(JOB.build(), Role.EVALUATOR).raw
    other["spec"]["containers"][0]["image"] = "other"
    assert helper_pod.image(JOB.raw, [other, CHIEF]) == IMAGE
    assert helper_pod.image(JOB.raw, [other]) == "other"
    assert helper_pod.image(JOB.raw, []) is None
    named = a_job().with_container(image="me/train:1").raw
    assert helper_pod.image(named, []) == "me/train:1"
    ended = JOB.raw | {"status": {"trainerImage": "operators:1"}}
    assert helper_pod.image(ended, []) == "operators:1"
