"""The objects of a job: owned by it, found by it, named by it."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.observed import owned_by
from tftraining_operator.core.podtemplate import InvalidTemplateError

from tests.unit.builders import IMAGE, JobBuilder, a_job

JOB = a_job().with_workers(3).build()


def test_the_service_publishes_servers_that_are_not_ready() -> None:
    service = desired.service(JOB)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["metadata"]["name"] == "mnist"


def test_the_service_finds_exactly_the_jobs_pods() -> None:
    selector = desired.service(JOB)["spec"]["selector"].items()
    pod = desired.pod(JOB, Role.PS, 0, 0, IMAGE)
    other = desired.pod(a_job().named("mnist", uid="u2").build(), Role.PS, 0, 0, IMAGE)
    assert selector <= pod["metadata"]["labels"].items()
    assert not selector <= other["metadata"]["labels"].items()


def test_all_that_is_made_goes_with_the_job() -> None:
    for made in (desired.service(JOB), desired.pod(JOB, Role.PS, 0, 0, IMAGE)):
        assert owned_by(made, JOB.uid)
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"], owner["name"]) == (
            keys.API_VERSION,
            "TFTrainingJob",
            "mnist",
        )
        assert made["metadata"]["namespace"] == "default"


def test_a_pod_says_of_which_attempt_and_cluster_size_it_is() -> None:
    metadata = desired.pod(JOB, Role.CHIEF, 0, 7, IMAGE)["metadata"]
    assert metadata["name"] == "mnist-chief-0"
    assert metadata["labels"][keys.LABEL_ATTEMPT] == "7"
    assert metadata["annotations"][keys.ANNOTATION_WORKERS] == "3"


@pytest.mark.parametrize(
    ("job", "tried"),
    [
        pytest.param(a_job().with_evaluator(), 1, id="with the checkpoint and without"),
        pytest.param(a_job().with_spec(checkpoint={"uri": "gs://b/c"}), 1, id="no volume"),
        pytest.param(a_job(), 1, id="no checkpoint to mount"),
        pytest.param(a_job().mirrored(), 1, id="one role"),
        pytest.param(
            a_job().with_evaluator().with_role("ps", mountCheckpoint=True),
            1,
            id="a ps that mounts the checkpoint",
        ),
        pytest.param(
            a_job().with_role("ps", template={"metadata": {"labels": {"tier": "ps"}}}),
            2,
            id="an own template for ps",
        ),
    ],
)
def test_one_sample_for_each_template_is_tried(job: JobBuilder, tried: int) -> None:
    assert len(desired.samples(job.build(), IMAGE)) == tried


def test_the_sample_of_a_shared_template_mounts_the_checkpoint() -> None:
    (sample,) = desired.samples(a_job().with_evaluator().build(), IMAGE)
    assert sample["metadata"]["labels"][keys.LABEL_ROLE] == Role.CHIEF
    assert "tftraining-checkpoint" in [each["name"] for each in sample["spec"]["volumes"]]


def test_the_sample_of_a_ps_with_an_own_template_mounts_the_checkpoint_as_the_ps_does() -> None:
    own = {"metadata": {"labels": {"tier": "ps"}}}
    job = a_job().with_evaluator().with_role("ps", template=own, mountCheckpoint=True).build()
    samples = {
        s["metadata"]["labels"][keys.LABEL_ROLE]: s["spec"] for s in desired.samples(job, IMAGE)
    }
    assert "tftraining-checkpoint" in [each["name"] for each in samples["ps"]["volumes"]]


def test_no_sample_is_tried_of_a_role_that_has_no_pods() -> None:
    job = a_job().with_role("evaluator", replicas=0, template={"metadata": {"labels": {"a": "b"}}})
    roles = {s["metadata"]["labels"][keys.LABEL_ROLE] for s in desired.samples(job.build(), IMAGE)}
    assert "evaluator" not in roles


def beside(port: Any, *, kind: str = "containers", **fields: Any) -> JobBuilder:
    """A job of our image with another container that says at which port it listens."""
    job = a_job()
    other = {"name": "other", "image": "other:1", "ports": [{"containerPort": port}], **fields}
    job.raw["spec"]["template"]["spec"].setdefault(kind, []).append(other)
    return job


SIDECAR = {"kind": "initContainers", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param(
            beside(2222),
            ["template of ps", "spec.containers[other].ports", "2222", "TensorFlow's server"],
            id="the port of TensorFlow's server",
        ),
        pytest.param(
            beside(8080),
            ["template of chief", "spec.containers[other].ports", "8080", "serves its progress"],
            id="the port of the progress",
        ),
        pytest.param(
            beside(8080, **SIDECAR), ["spec.initContainers[other].ports"], id="a native sidecar"
        ),
        pytest.param(
            beside(8080).with_container(image="own", command=["python", "-m", "tftrainer"]),
            ["8080"],
            id="our trainer in an image of the user's",
        ),
    ],
)
def test_a_sidecar_at_a_port_that_is_taken_is_refused_by_name(
    job: JobBuilder, words: list[str]
) -> None:
    with pytest.raises(InvalidTemplateError) as refused:
        desired.samples(job.build(), IMAGE)
    for word in [*words, "let container other listen on another one"]:
        assert word in str(refused.value)
    desired.pod(job.build(), Role.CHIEF, 0, 0, IMAGE)  # one that runs may be alright


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(beside(9090), id="another port"),
        pytest.param(beside({"a": 1}), id="what is no port"),
        pytest.param(beside(2222).mirrored(), id="where no server runs"),
        pytest.param(beside(8080).with_container(image="own"), id="where nobody serves progress"),
        pytest.param(beside(8080, kind="initContainers"), id="an init container, which ends"),
        pytest.param(
            beside(0, ports=[{"containerPort": 2222, "protocol": "UDP"}]), id="another protocol"
        ),
    ],
)
def test_a_sidecar_at_a_port_that_is_free_is_left_alone(job: JobBuilder) -> None:
    assert desired.samples(job.build(), IMAGE)
