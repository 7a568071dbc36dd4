"""An unavailable worker is excluded where fewer suffice; a cluster grows with ready workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import UnavailableWorker
from tftraining_operator.core.policies.membership import Membership, membership

from tests.unit.builders import PodBuilder, a_condition, a_job, a_pod, at, seen, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.core.job import Job

RUNNING = a_condition(ConditionType.RUNNING)


def a_cluster(least: int | None = 1, workers: int = 3, **status: Any) -> Job:
    job = a_job().with_role("worker", replicas=workers, minReplicas=least)
    fields = {"first_running_time": stamp(), "chief_uid": "uid", **status}
    return job.with_status(RUNNING, **fields).build()


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
    assert found(a_cluster(least=None), now=99) == Membership(3)


def test_a_worker_is_away_from_the_moment_it_is_missed() -> None:
    seen_first = found(a_cluster(), now=5)
    assert seen_first.unavailable == tuple(away(since=5))
    assert (seen_first.excluded, seen_first.due) == ((), at(35))


def test_it_is_away_since_then_however_often_its_pod_is_made_again() -> None:
    assert found(a_cluster(unavailable_workers=away()), now=29).unavailable == tuple(away())


def test_it_is_left_out_after_half_a_minute() -> None:
    assert found(a_cluster(unavailable_workers=away()), now=29.9).excluded == ()
    assert found(a_cluster(unavailable_workers=away()), now=30).excluded == (1,)


def test_not_if_too_few_would_remain() -> None:
    assert found(a_cluster(least=3, unavailable_workers=away()), now=99).excluded == ()
    job = a_cluster(least=2, unavailable_workers=[*away(0), *away(1)])
    left = seen(job, a_pod(job, Role.WORKER, 2).running())
    assert membership(job, left, at(99)).excluded == (), "one of the two would be waited for"


def test_a_job_that_never_ran_waits_for_all() -> None:
    job = a_job().with_role("worker", replicas=3, minReplicas=1)
    started = job.with_status(unavailable_workers=away(), chief_uid="uid").build()
    assert found(started, now=99).excluded == ()


def test_it_stays_out_while_it_is_away() -> None:
    job = a_cluster(excluded_workers=[1], unavailable_workers=away())
    assert found(job, now=99) == Membership(3, (1,), tuple(away()), None)


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
    assert back.unavailable == ()
    assert back.due == (at(wake) if wake else None)


def test_an_index_that_is_no_longer_asked_for_is_forgotten() -> None:
    job = a_cluster(workers=2, excluded_workers=[2], unavailable_workers=away(2))
    assert found(job, now=99, without=None) == Membership(2)


def test_a_pod_that_is_being_deleted_is_away() -> None:
    job = a_cluster(workers=1)
    leaving = a_pod(job, Role.WORKER).running().deleting()
    assert [w.index for w in membership(job, seen(job, leaving), at(0)).unavailable] == [0]


def test_the_clusters_text_and_members_close_up() -> None:
    job = a_cluster(excluded_workers=[1])
    assert list(job.members(Role.WORKER)) == [0, 2]
    assert job.worker_set == "0,2"
    assert a_cluster().worker_set == "3"


def growing(*, node: bool = True, ready_at: float | None = 0) -> Membership:
    """A cluster of two that is asked for three, whose third pod is there."""
    built = a_job().with_workers(3).with_status(RUNNING, cluster_workers=2, chief_uid="uid").build()
    pods = [a_pod(built, Role.WORKER, i).running() for i in range(2)]
    third = a_pod(built, Role.WORKER, 2)
    if node:
        third.running(ready=ready_at is not None, seconds=ready_at or 0)
    return membership(built, seen(built, *pods, third), at(30))


@pytest.mark.parametrize(
    ("fields", "size", "due"),
    [
        pytest.param({"node": False}, 2, None, id="not while the new worker has no place"),
        pytest.param({"ready_at": None}, 2, None, id="not while it is not ready"),
        pytest.param({"ready_at": 20}, 2, 40, id="not at once: more may follow"),
        pytest.param({"ready_at": 10}, 3, None, id="after twenty seconds"),
    ],
)
def test_a_cluster_grows(fields: dict[str, Any], size: int, due: float | None) -> None:
    found = growing(**fields)
    assert (found.size, found.due) == (size, at(due) if due else None)


NOT_EXPECTED = """\
  File "tensorflow/python/eager/context.py", line 745, in ensure_initialized
tensorflow.python.framework.errors_impl.InvalidArgumentError: Unexpected task registered with \
task_name=/job:worker/replica:0/task:2
Additional GRPC error information from remote target /job:chief/replica:0/task:0 while calling \
/tensorflow.CoordinationService/RegisterTask
"""
"""What TensorFlow 2.21 says in a member that the running chief's cluster does not have."""


def placed(pod: PodBuilder) -> PodBuilder:
    pod.raw["spec"]["nodeName"] = "node-1"
    return pod


def initializing(pod: PodBuilder) -> None:
    placed(pod).waiting("PodInitializing")
    init = {"name": "data", "state": {"running": {"startedAt": stamp()}}}
    pod.status["initContainerStatuses"] = [init]


@pytest.mark.parametrize(
    ("change", "size", "due"),
    [
        pytest.param(lambda pod: pod, 2, None, id="not without a node"),
        pytest.param(placed, 2, None, id="not with a node alone"),
        pytest.param(
            lambda pod: placed(pod).waiting("ErrImagePull"), 2, None, id="not without its image"
        ),
        pytest.param(
            lambda pod: placed(pod).waiting("ContainerCreating"), 2, None, id="nor its volumes"
        ),
        pytest.param(initializing, 2, None, id="not while an init container runs"),
        pytest.param(
            lambda pod: pod.running(ready=False, seconds=20), 2, 40, id="not at once: it may crash"
        ),
        pytest.param(
            lambda pod: pod.running(ready=False, seconds=10), 3, None, id="it waits for its peers"
        ),
        pytest.param(
            lambda pod: pod.exited(1, NOT_EXPECTED, seconds=29),
            3,
            None,
            id="it ended because the chief does not expect it yet",
        ),
        pytest.param(
            lambda pod: pod.exited(1, "ImportError: no GPU", seconds=29), 2, None, id="it crashed"
        ),
        pytest.param(
            lambda pod: pod.exited(137, reason="OOMKilled", seconds=29), 2, None, id="out of memory"
        ),
        pytest.param(lambda pod: pod.evicted(), 2, None, id="it was evicted"),
        pytest.param(
            lambda pod: pod.running(seconds=0).deleting(), 2, None, id="it is being deleted"
        ),
    ],
)
def test_a_gang_grows_when_its_new_member_has_proved_that_it_can_start(
    change: Callable[[PodBuilder], object], size: int, due: float | None
) -> None:
    job = a_job().mirrored(workers=3)
    built = job.with_status(RUNNING, cluster_workers=2, chief_uid="uid").build()
    pods = [a_pod(built, Role.WORKER, i).running() for i in range(2)]
    third = a_pod(built, Role.WORKER, 2)
    change(third)
    found = membership(built, seen(built, *pods, third, now=at(30)), at(30))
    assert (found.size, found.due) == (size, at(due) if due else None)


@pytest.mark.parametrize(
    ("third", "size"),
    [
        pytest.param(lambda pod: placed(pod).waiting("ErrImagePull"), 2, id="it cannot start"),
        pytest.param(lambda pod: pod.running(seconds=29), 3, id="it runs, and nothing is ended"),
    ],
)
@pytest.mark.parametrize("gang", [True, False])
def test_between_two_chiefs_a_cluster_that_ran_grows_only_by_workers_that_started(
    third: Callable[[PodBuilder], object], size: int, *, gang: bool
) -> None:
    job = a_job().mirrored(workers=3) if gang else a_job().with_workers(3)
    ran = {"cluster_workers": 2, "first_running_time": stamp(), "attempt": 1}
    built = job.with_status(**ran).build()
    new = a_pod(built, Role.WORKER, 2)
    third(new)
    assert membership(built, seen(built, new, now=at(30)), at(30)).size == size


def test_a_cluster_of_which_no_chief_knows_changes_at_no_cost() -> None:
    job = a_job().with_workers(5).with_status(cluster_workers=2).build()
    assert membership(job, seen(job), at(0)) == Membership(5)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        pytest.param(Membership(3), None, id="nothing"),
        pytest.param(Membership(4), "Scaled", id="more"),
        pytest.param(Membership(2), "Scaled", id="fewer"),
        pytest.param(Membership(3, (1,)), "WorkerExcluded", id="one is excluded"),
    ],
)
def test_a_change_says_why_the_chief_restarts(after: Membership, reason: str | None) -> None:
    change = after.change(a_cluster(cluster_workers=3))
    assert (change[0] if change else None) == reason


def test_a_worker_that_is_back_is_named() -> None:
    change = Membership(3).change(a_cluster(cluster_workers=3, excluded_workers=[1]))
    assert change == ("WorkerRejoined", "continuing with worker-1 again")


@pytest.mark.parametrize(
    ("workers", "excluded", "size"),
    [
        pytest.param("4", [], 4, id="a number"),
        pytest.param("0,2", [1], 3, id="indexes"),
        pytest.param("0", [1], 2, id="one index is left"),
    ],
)
def test_an_older_operators_cluster_is_read_from_its_chief(
    workers: str, excluded: list[int], size: int
) -> None:
    job = a_job().with_workers(size).with_status(excluded_workers=excluded).build()
    chief = a_pod(job, Role.CHIEF).running()
    chief.raw["metadata"]["annotations"][keys.ANNOTATION_WORKERS] = workers
    assert membership(job, seen(job, chief), at(0)).size == size


def test_one_worker_is_told_in_the_singular() -> None:
    change = Membership(1).change(a_cluster(cluster_workers=2))
    assert change == ("Scaled", "scaled from 2 to 1 worker")
