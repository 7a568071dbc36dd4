"""What tells that a pod was made of another spec than the job has by now."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core.fingerprint import fingerprint, has_pods_of_before

from tests.unit.builders import JobBuilder, a_job, a_pod, seen

if TYPE_CHECKING:
    from collections.abc import Callable

CLAIM = {"persistentVolumeClaim": {"claimName": "mnist"}}
PINNED = "1-16b933545b861b0f"
OWN = {"spec": {"nodeSelector": {"disk": "fast"}}}


def a_later(job: JobBuilder, change: Callable[[JobBuilder], object]) -> JobBuilder:
    """The job after an update."""
    changed = JobBuilder()
    changed.raw = copy.deepcopy(job.raw)
    change(changed)
    changed.raw["metadata"]["generation"] += 1
    return changed


def is_of_before(change: Callable[[JobBuilder], object]) -> bool:
    job = a_job().with_workers(2)
    pod = a_pod(job.build(), Role.CHIEF)
    later = a_later(job, change).build()
    return has_pods_of_before(later, seen(later, pod))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda job: job.with_container(image="corrected"), id="the image"),
        pytest.param(lambda job: job.with_role("chief", template=OWN), id="the chief's template"),
        pytest.param(lambda job: job.with_role("worker", template=OWN), id="the workers' template"),
        pytest.param(lambda job: job.with_role("worker", restartPolicy="Never"), id="their policy"),
        pytest.param(lambda job: job.with_role("ps", replicas=2), id="the number of ps"),
        pytest.param(lambda job: job.with_spec(checkpoint=CLAIM), id="the checkpoint"),
        pytest.param(lambda job: job.with_evaluator(), id="an evaluator"),
        pytest.param(lambda job: job.with_spec(scheduling={"queue": "q"}), id="the scheduling"),
        pytest.param(lambda job: job.mirrored(workers=2), id="the strategy"),
    ],
)
def test_what_changes_only_while_a_job_is_suspended_makes_its_pods_those_of_before(
    change: Callable[[JobBuilder], object],
) -> None:
    assert is_of_before(change)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda job: job.with_workers(5), id="the number of workers"),
        pytest.param(lambda job: job.with_role("worker", minReplicas=1), id="minReplicas"),
        pytest.param(lambda job: job.with_policy(backoffLimit=9), id="the run policy"),
        pytest.param(lambda job: job.with_spec(network={"policy": "Open"}), id="the network"),
        pytest.param(lambda job: job.with_spec(disruption={"budget": "None"}), id="the budget"),
        pytest.param(
            lambda job: job.with_role("chief", replicas=1, restartPolicy="ExitCode"),
            id="a default that is written out",
        ),
    ],
)
def test_what_changes_while_a_job_runs_does_not(change: Callable[[JobBuilder], object]) -> None:
    assert not is_of_before(change)


@pytest.mark.parametrize("said", ["9-0", "", "x-0", "1" * 5000 + "-0", None])
def test_a_pod_that_says_no_earlier_generation_is_left_alone(said: str | None) -> None:
    job = a_job()
    pod = a_pod(job.build(), Role.CHIEF)
    annotations = pod.raw["metadata"]["annotations"]
    del annotations[keys.ANNOTATION_SPEC]
    if said is not None:
        annotations[keys.ANNOTATION_SPEC] = said
    later = a_later(job, lambda other: other.with_container(image="corrected")).build()
    assert not has_pods_of_before(later, seen(later, pod))


def test_it_is_the_same_in_every_version_or_an_upgrade_would_end_the_pods_of_all_jobs() -> None:
    assert fingerprint(a_job().with_evaluator().with_workers(3).build()) == PINNED
