"""A job keeps the trainer image that it started with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.trainer_image import trainer_image

from tests.unit.builders import a_job, stamp

if TYPE_CHECKING:
    from tests.unit.builders import JobBuilder


def a_raw_pod(job: JobBuilder, role: Role, image: str, created: int) -> dict[str, Any]:
    pod = desired.pod(job.build(), role, 0, 0, image)
    pod["metadata"] |= {"uid": f"{role}-uid", "creationTimestamp": stamp(created)}
    return pod


def image_of(job: JobBuilder, *pods: dict[str, Any]) -> str:
    return trainer_image(job.build(), lambda: pods, "default:1")


def test_a_new_job_starts_with_the_operators_image() -> None:
    assert image_of(a_job()) == "default:1"


def test_a_started_job_keeps_the_image_in_its_status() -> None:
    job = a_job().with_status(trainerImage="stored:1")
    assert image_of(job, a_raw_pod(job, Role.PS, "other:1", 0)) == "stored:1"


def test_a_job_of_an_operator_that_stored_none_keeps_the_image_of_its_oldest_pod() -> None:
    job = a_job()
    newer, older = a_raw_pod(job, Role.PS, "newer:1", 9), a_raw_pod(job, Role.CHIEF, "older:1", 0)
    assert image_of(job, newer, older) == "older:1"


def test_a_pod_that_is_not_the_jobs_shows_nothing() -> None:
    job = a_job()
    pod = a_raw_pod(job, Role.PS, "foreign:1", 0)
    pod["metadata"]["ownerReferences"] = []
    assert image_of(job, pod) == "default:1"


def test_a_pod_whose_image_the_user_named_shows_nothing() -> None:
    container = {"name": "tensorflow", "image": "theirs:1"}
    job = a_job().with_role("ps", template={"spec": {"containers": [container]}})
    assert image_of(job, a_raw_pod(job, Role.PS, "unused:1", 0)) == "default:1"
