"""A worker that stays away is left out where fewer suffice, and taken back when it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import UnavailableWorker
from tftraining_operator.core.policies.membership import Membership, membership

from tests.unit.builders import PodBuilder, a_condition, a_job, a_pod, at, seen, stamp

if TYPE_CHECKING:
    from tftraining_operator.core.job import Job

RUNNING = a_condition(ConditionType.RUNNING)


def a_cluster(least: int | None = 1, workers: int = 3, **status: Any) -> Job:
    job = a_job().with_role("worker", replicas=workers, minReplicas=least)
    return job.with_status(RUNNING, **status).build()


def found(job: Job, now: float, *, without: int | None = 1, back_at: float = 0) -> Membership:
    pods: list[PodBuilder] = [
        a_pod(job, Role.WORKER, i).running(seconds=back_at if i == 1 else 0)
        for i in range(job.desired(Role.WORKER))
        if i != without
    ]
    return membership(job, seen(job, *pods), at(now))


def away(index: int = 1, since: float = 0) -> list[UnavailableWorker]:
    return [UnavailableWorker(index=index, since=stamp(since))]


def test_without_a_minimum_nobody_is_watched() -> None:
    assert found(a_cluster(least=None), now=99) == Membership()


def test_a_worker_is_away_from_the_moment_it_is_missed() -> None:
    seen_first = found(a_cluster(), now=5)
    assert seen_first.away == tuple(away(since=5))
    assert (seen_first.excluded, seen_first.wake_at) == ((), at(35))


def test_it_is_away_since_then_however_often_its_pod_is_made_again() -> None:
    assert found(a_cluster(unavailable_workers=away()), now=29).away == tuple(away())


def test_it_is_left_out_after_half_a_minute() -> None:
    assert found(a_cluster(unavailable_workers=away()), now=29.9).excluded == ()
    assert found(a_cluster(unavailable_workers=away()), now=30).excluded == (1,)


def test_not_if_too_few_would_remain() -> None:
    assert found(a_cluster(least=3, unavailable_workers=away()), now=99).excluded == ()


def test_a_job_that_never_ran_waits_for_all() -> None:
    job = a_job().with_role("worker", replicas=3, minReplicas=1)
    started = job.with_status(unavailable_workers=away()).build()
    assert found(started, now=99).excluded == ()


def test_it_stays_out_while_it_is_away() -> None:
    job = a_cluster(excluded_workers=[1], unavailable_workers=away())
    assert found(job, now=99) == Membership((1,), tuple(away()), None)


@pytest.mark.parametrize(
    ("now", "excluded", "wake"),
    [
        pytest.param(109, (1,), 110, id="not at once: it may crash again"),
        pytest.param(110, (), None, id="after ten seconds"),
    ],
)
def test_it_comes_back_for_good(now: float, excluded: tuple[int, ...], wake: float | None) -> None:
    job = a_cluster(excluded_workers=[1], unavailable_workers=away())
    back = found(job, now=now, without=None, back_at=100)
    assert back.excluded == excluded
    assert back.away == ()
    assert back.wake_at == (at(wake) if wake else None)


def test_an_index_that_is_no_longer_asked_for_is_forgotten() -> None:
    job = a_cluster(workers=2, excluded_workers=[2], unavailable_workers=away(2))
    assert found(job, now=99, without=None) == Membership()


def test_a_pod_that_is_being_deleted_is_away() -> None:
    job = a_cluster(workers=1)
    leaving = a_pod(job, Role.WORKER).running().deleting()
    assert [w.index for w in membership(job, seen(job, leaving), at(0)).away] == [0]


def test_the_clusters_text_and_members_close_up() -> None:
    job = a_cluster(excluded_workers=[1])
    assert job.members(Role.WORKER) == [0, 2]
    assert job.worker_set == "0,2"
    assert a_cluster().worker_set == "3"
