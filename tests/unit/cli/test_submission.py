"""What `tftj submit` refuses before anything is sent."""

from __future__ import annotations

import pytest
from tftraining import submission
from tftraining.errors import InputError

from tests.unit.builders import Raw, a_job

CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mnist"}}


def a_manifest(**metadata: str) -> Raw:
    return {**a_job().raw, "metadata": metadata or {"name": "mnist"}}


def test_what_comes_with_a_job_is_sent_before_it() -> None:
    plan = submission.plan_of([a_manifest(), CLAIM], "x", None)
    assert plan.others == [CLAIM]
    assert not plan.owned, "somebody else may use it"


def test_a_job_can_have_another_name() -> None:
    plan = submission.plan_of([a_manifest()], "x", "other")
    assert plan.job["metadata"]["name"] == "other"


def test_what_an_api_server_noted_of_a_job_is_not_sent_with_another_one() -> None:
    """As in `tftj get -o yaml`: with a resource version none is created."""
    noted = {"uid": "uid-1", "resourceVersion": "7", "generation": 2, "managedFields": []}
    metadata = {
        "name": "mnist",
        "labels": {"team": "a"},
        "creationTimestamp": "2026-01-01",
        **noted,
    }
    stored = {**a_manifest(), "metadata": metadata, "status": {"state": "Failed"}}
    plan = submission.plan_of([stored], "x", None)
    assert plan.job == {**a_manifest(), "metadata": {"name": "mnist", "labels": {"team": "a"}}}
    assert "status" in stored, "it is the caller's"


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        pytest.param([CLAIM], "x: contains no TFTrainingJob", id="no job"),
        pytest.param([a_manifest(), a_manifest(name="b")], "contains 2 jobs", id="two jobs"),
        pytest.param([a_manifest(), {"kind": "Secret"}], "metadata.name", id="an object's name"),
    ],
)
def test_a_file_that_is_no_submission_is_refused(documents: list[Raw], told: str) -> None:
    with pytest.raises(InputError, match=told):
        submission.plan_of(documents, "x", None)


@pytest.mark.parametrize(
    ("job", "told"),
    [
        pytest.param({**a_manifest(), "apiVersion": "v1"}, "x: apiVersion: must be ", id="version"),
        pytest.param({**a_manifest(), "spec": {"wrker": {}}}, "did you mean worker", id="a typo"),
        pytest.param(a_manifest(generateName="9-"), "starting with a letter", id="generateName"),
        pytest.param({**a_manifest(), "metadata": {}}, "metadata.name: is required", id="no name"),
    ],
)
def test_a_job_that_the_api_server_would_refuse_is_refused(job: Raw, told: str) -> None:
    with pytest.raises(InputError, match=told):
        submission.check(job, "x")


def test_a_generated_name_is_accepted() -> None:
    submission.check(a_manifest(generateName="mnist-"), "x")


def test_metadata_of_another_form_is_refused_also_with_another_name() -> None:
    plan = submission.plan_of([{**a_manifest(), "metadata": ["mnist"]}], "x", "other")
    with pytest.raises(InputError, match=r"x: metadata\.name"):
        submission.check(plan.job, "x")
