"""After a write of a status no pass follows if it would change nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job, parse_job
from tftraining_operator.core.observed import observe
from tftraining_operator.core.pod_metadata import PodMetadata
from tftraining_operator.core.settling import settled
from tftraining_operator.reconcile.store import Kind

from tests.unit.builders import IMAGE, NOW, PodBuilder, a_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.core.decision import Decision

    from tests.unit.fakes import FakeCluster, Operator

    Raw = dict[str, Any]


@pytest.fixture
def job(operator: Operator, cluster: FakeCluster) -> Job:
    """One that has told that it trains."""
    job = a_job().with_workers(2).with_role("ps", replicas=1)
    key = cluster.submit(job.with_policy(activeDeadlineSeconds=3600).raw)
    operator.settle()
    for name in cluster.pods():
        cluster.act(name, PodBuilder.running)
    operator.wait(5)
    return parse_job(cluster.job(key), cluster.clock())


def _settled(cluster: FakeCluster, job: Job, pods: list[Raw] | None = None) -> Decision | None:
    now = cluster.clock()
    services, policies = (
        [raw for (kind, *_), raw in cluster.objects.items() if kind is each]
        for each in (Kind.SERVICE, Kind.NETWORK_POLICY)
    )
    observed = observe(
        job,
        list(cluster.pods().values()) if pods is None else pods,
        services,
        now,
        network_policies=policies,
    )
    return settled(job, observed, Facts(), now, trainer_image=IMAGE, given=PodMetadata())


def test_of_a_job_that_trains_it_is_known_when_to_look_again(
    cluster: FakeCluster, job: Job
) -> None:
    found = _settled(cluster, job)
    assert found is not None
    assert found.look_again == NOW + timedelta(hours=1), "its deadline"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pods: pods.pop("mnist-worker-1"), id="one to create"),
        pytest.param(
            lambda pods: PodBuilder(pods["mnist-worker-0"]).exited(137), id="one to replace"
        ),
        pytest.param(lambda pods: PodBuilder(pods["mnist-chief-0"]).exited(0), id="an end"),
        pytest.param(
            lambda pods: PodBuilder(pods["mnist-worker-1"]).running(ready=False), id="news to tell"
        ),
    ],
)
def test_where_there_is_something_to_do_a_pass_follows(
    cluster: FakeCluster, job: Job, change: Callable[[dict[str, Raw]], object]
) -> None:
    pods = cluster.pods()
    change(pods)
    assert _settled(cluster, job, list(pods.values())) is None
