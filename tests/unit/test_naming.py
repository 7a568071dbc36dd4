"""Names are computed, and every name that a legal job can have is legal."""

from __future__ import annotations

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.rules import MAX_NAME
from tftraining_operator.api.types import MAX_REPLICAS
from tftraining_operator.core import naming


@pytest.mark.parametrize(
    ("role", "last"),
    [
        pytest.param(Role.CHIEF, 0, id="the chief"),
        pytest.param(Role.EVALUATOR, 0, id="the evaluator"),
        pytest.param(Role.WORKER, MAX_REPLICAS - 1, id="the last of all workers"),
        pytest.param(Role.PS, MAX_REPLICAS - 1, id="the last of all ps"),
    ],
)
def test_the_longest_job_has_pods_with_dns_labels(role: Role, last: int) -> None:
    assert len(naming.pod_name("m" * MAX_NAME, role, last)) <= 63


def test_a_name_says_job_role_and_index() -> None:
    assert naming.pod_name("mnist", Role.WORKER, 12) == "mnist-worker-12"


def test_an_address_goes_through_the_jobs_service() -> None:
    found = naming.address("mnist", "team-a", Role.PS, 1)
    assert found == "mnist-ps-1.mnist.team-a.svc:2222"


def test_a_pods_labels_tell_job_role_index_and_attempt() -> None:
    assert naming.pod_labels("team-a", "mnist", "u1", Role.WORKER, 3, attempt=2) == {
        "tftraining.dev/job": "mnist",
        "tftraining.dev/job-uid": "u1",
        "tftraining.dev/bucket": str(naming.bucket("team-a", "mnist")),
        "tftraining.dev/role": "worker",
        "tftraining.dev/index": "3",
        "tftraining.dev/attempt": "2",
        "app.kubernetes.io/managed-by": "tftraining-operator",
    }


def test_the_scale_selector_finds_workers_by_their_labels() -> None:
    labels = naming.pod_labels("team-a", "mnist", "u1", Role.WORKER, 0, attempt=0)
    terms = dict(term.split("=") for term in naming.worker_selector("mnist").split(","))
    assert terms.items() <= labels.items()
    others = naming.pod_labels("team-a", "mnist", "u1", Role.PS, 0, attempt=0)
    assert not terms.items() <= others.items()


def test_roles_are_spelled_as_tensorflow_spells_them() -> None:
    assert {role.value for role in keys.Role} == {"chief", "worker", "ps", "evaluator"}
