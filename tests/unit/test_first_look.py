"""A process that begins looks first at the jobs for which there is something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import RoleStatus
from tftraining_operator.core.first_look import is_at_rest

from tests.unit.builders import LATER, PodBuilder, a_condition, a_job, a_pod, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    Raw = dict[str, Any]

ROLES = (Role.CHIEF, Role.WORKER, Role.PS)


def _job(*conditions: Any, **fields: Any) -> Raw:
    roles = [
        RoleStatus(name=role, desired=1, ready=1, active=1, succeeded=0, failed=0) for role in ROLES
    ]
    told = {"observed_generation": 1, "roles": roles, **fields}
    return a_job().with_status(*conditions, **told).raw


def _pods() -> list[PodBuilder]:
    job = a_job().build()
    return [a_pod(job, role).running() for role in ROLES]


def _at_rest(job: Raw, pods: list[PodBuilder]) -> bool:
    return is_at_rest(job, [pod.raw for pod in pods], LATER)


def test_a_job_whose_pods_all_run_is_at_rest() -> None:
    assert _at_rest(_job(), _pods())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pods: pods.pop(), id="one is gone"),
        pytest.param(lambda pods: pods[1].exited(137), id="one has failed"),
        pytest.param(lambda pods: pods[0].exited(0), id="the chief is done"),
        pytest.param(lambda pods: pods[2].deleting(), id="one is to end"),
        pytest.param(lambda pods: pods.append(pods[0]), id="one too many"),
    ],
)
def test_one_whose_pods_are_not_as_they_should_be_is_not(
    change: Callable[[list[PodBuilder]], object],
) -> None:
    pods = _pods()
    change(pods)
    assert not _at_rest(_job(), pods)


def test_one_that_was_changed_or_not_started_is_not() -> None:
    changed = _job()
    changed["metadata"]["generation"] = 2
    assert not _at_rest(changed, _pods())
    assert not _at_rest(_job(start_time=None), [])
    assert not _at_rest(a_job().raw, [])


def test_one_that_has_ended_is_at_rest_once_nothing_runs() -> None:
    ends = (a_condition(kind) for kind in (ConditionType.SUCCEEDED, ConditionType.FINISHED))
    ended = _job(*ends, completion_time=stamp())
    pods = _pods()
    assert not _at_rest(ended, pods)
    assert _at_rest(ended, [pods[0].exited(0)])


@pytest.mark.parametrize("roles", ["none", [7], [{"desired": "three"}]])
def test_a_status_that_is_garbage_stops_no_start(roles: object) -> None:
    job = _job()
    job["status"]["roles"] = roles
    assert not _at_rest(job, _pods())
